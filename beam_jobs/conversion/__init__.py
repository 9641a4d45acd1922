"""The job that turns raw rows into shards: plan, preparation, shuffle, writing, result.

May import sources, cells, records, statistics, validation, launch, publication and pipeline/data. Start with
job.py; a row goes through preparation.py, then shard_writer.py.
"""
