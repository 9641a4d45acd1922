"""Runs a Beam job for `convert` and `predict`: started, watched, reconciled, published whole or not at all.

May import sources and pipeline/data. Start with run.py.
"""
