"""What formats are read with: lines and records, cut out of byte ranges of files.

May import sources/pieces and pipeline/data. Start with lines.py.
"""
