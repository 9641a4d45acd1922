"""Runs a Beam job for `convert` and `predict`: started, watched, reconciled, published whole or not at all.

May import sources and pipeline/data. Start with run.py. remote_output.py writes wherever Beam's FileSystems
do, so that a further store needs no code here.
"""
