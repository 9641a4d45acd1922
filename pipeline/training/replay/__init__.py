"""Computes any step of any run again: its batch, the records in it, and what each costs under a checkpoint.

Needs no log, as the row at a position follows from the seed. Start with replay.py.
"""
