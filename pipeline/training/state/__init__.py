"""What a run keeps on disk, and the records that test a restored model.

May import pipeline/data. Start with workdir.py.
"""
