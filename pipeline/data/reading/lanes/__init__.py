"""Lanes: what lets each of several hosts read its part alone, where rows are read in windows.

May import order, permutation, host_share, record_fetch, block_rows and dataset. Start with lanes.py.
"""
