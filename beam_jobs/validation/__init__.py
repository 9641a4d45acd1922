"""Judges a dataset as a whole, before it is published: against its schema, and against an earlier dataset.

May import pipeline/data. Start with verdict.py.
"""
