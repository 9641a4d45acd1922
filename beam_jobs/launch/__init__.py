"""Runs a Beam job for `convert` and `predict`: starts it, watches it, checks that all rows were counted, and
publishes all of its output or nothing.

May import sources and pipeline/data. Start with run.py. remote_output.py writes to any store that Beam's
FileSystems reach, so another store needs no code here.
"""
