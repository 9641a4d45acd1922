"""Computes any step of any run again: its batch, the records in it, and what each costs under a checkpoint.

Needs no log, as the row at a position follows from the seed. May import experiment, state, tasks, data and
pipeline/report. Start with replay.py.
"""
