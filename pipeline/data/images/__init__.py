"""Encoded images → pixels, and what training does to them, all as TensorFlow graphs.

May import base. Start with decoding.py, then training_image.py and its settings, augmentation.py.
"""
