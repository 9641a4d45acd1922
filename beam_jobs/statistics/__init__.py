"""Statistics of every feature, gathered beside the rows and merged to the same bits in any order.

May import cells and pipeline/data. Start with combine.py.
"""
