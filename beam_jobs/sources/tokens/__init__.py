"""Text → token ids → rows of one length, over any source that has a column of text.

May import sources/pieces, cells and pipeline/data. Start with token_rows.py.
"""
