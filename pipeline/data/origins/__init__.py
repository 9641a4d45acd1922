"""Says where each row of a dataset came from: its raw file, and the row in it.

May import dataset and schema. Start with reader.py; files.py has the two formats.
"""
