"""Records by their numbers: where they are, how many reads are in flight, and what becomes of one that fails.

May import dataset. Start with record_fetch.py.
"""
