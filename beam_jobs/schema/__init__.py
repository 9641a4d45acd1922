"""Proposes a schema from raw data: profiles of columns first, then a feature for each.

May import sources, cells and pipeline/data. Start with proposal.py; features.py decides what a column is.
"""
