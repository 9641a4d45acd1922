"""The one declared schema of a dataset: its features and their kinds.

May import pipeline/data's own files only. Start with schema.py.
"""
