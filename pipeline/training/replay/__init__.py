"""Computes any step of any run again: its batch, the records in it, and the loss of each under a checkpoint.

It needs no log, because the seed determines the row at each position. May import experiment, state, tasks,
data and pipeline/report. Start with replay.py.
"""
