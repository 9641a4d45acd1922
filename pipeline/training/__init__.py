"""Trains a model on a dataset and reports on it. May import data, feed, report and models, but no configs.

Start with run/run.py: it puts together what experiment/, engine/, loop/ and state/ provide. report/ describes
a run, replay/ computes a step again, parity/ compares ways of computing, launch/ starts workers and sweeps.
"""
