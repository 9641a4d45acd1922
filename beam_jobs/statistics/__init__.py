"""How Beam gathers the statistics of every feature, beside the rows: the accumulators are pipeline/data's.

May import cells and pipeline/data. Start with combine.py.
"""
