"""Raw formats → columns of raw cells. Each file here reads one; formats.py is the table of all.

May import cells and pipeline/data. Start with pieces/source.py, which says what a source is; CONTRIBUTING.md
says how to add one.
"""
