"""Predicts in batches: raw rows → an exported model → files of predictions.

May import cells, conversion, sources, launch and pipeline/data. Start with job.py.
"""
