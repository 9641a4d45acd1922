"""Raw features → what a model takes, the same in training and in serving.

May import reading, dataset, statistics, images and schema. Start with preprocess.py.
"""
