"""Raw data arrives in pieces, the spans; each becomes a dataset of its own, once.

May import records and pipeline/data. Start with survey.py: it says which spans there are, and which of them
can be used.
"""
