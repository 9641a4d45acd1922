"""The one declared schema of a dataset: its features and their types.

May import pipeline/data's own files only. Start with schema.py.
"""
