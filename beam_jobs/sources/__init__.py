"""Reads raw formats into columns of raw cells. Each format has a file; formats.py is the table of all.

May import cells and pipeline/data. Start with source.py, which says what a source is; CONTRIBUTING.md says
how to add one.
"""
