"""Checks datasets: against their schema, an earlier dataset, their manifest, and another version.

May import sources, cells and pipeline/data. Start with validate.py (before publishing), dataset.py (after).
"""
