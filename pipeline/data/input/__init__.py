"""The input pipeline of training and evaluation: stages that end in batches, here or on tf.data services.

May import reading, preprocessing, images, dataset and schema. Start with batches.py.
"""
