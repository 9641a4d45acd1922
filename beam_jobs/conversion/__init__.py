"""Turns raw rows into the shards of a dataset: plan, preparation, shuffle, writing, result.

May import sources, cells, checks, launch and pipeline/data. Start with job.py; a row goes through
preparation.py, then writer.py.
"""
