"""Describes the files of a dataset directory: manifest, shards, indexes, statistics, blocks of rows.

May import schema. Start with manifest.py: a directory without a manifest is not a dataset.
"""
