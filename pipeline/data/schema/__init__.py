"""The one declared schema of a dataset: its features and their types.

May import base. Start with schema.py; feature_types.py has the types.
"""
