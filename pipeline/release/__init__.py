"""A trained model → an exported one, verified and scored. May import training and pipeline/data.

Start with export.py.
"""
