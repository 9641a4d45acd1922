"""Batch inference: raw rows → an exported model → files of predictions.

May import cells, conversion, publication, records, sources, launch and pipeline/data. Start with job.py.
"""
