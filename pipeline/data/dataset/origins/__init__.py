"""Where each row of a dataset came from: its raw file, and the row there. Beside it, in `origins/`.

May import the rest of dataset/. Start with reader.py; files.py and rows.py have the two formats.
"""
