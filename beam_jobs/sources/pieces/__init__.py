"""What every source is made of: inputs, the pieces that workers read, raw rows, rejected rows.

May import cells and pipeline/data. Start with source.py.
"""
