"""Compares a published dataset with its manifest, and two versions with each other.

May import validation, sources, cells and pipeline/data. Start with dataset.py.
"""
