"""Several exports on one pinned holdout: what each answers to every row, and whether training saw these rows.

May import pipeline/data, training and the rest of release. Start with score.py.
"""
