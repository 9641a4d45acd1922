"""Whether files are those that were published: when a dataset is opened, and whether they stay so.

May import the dataset's other files, but record_table.py and what imports that. Start with shard_check.py.
"""
