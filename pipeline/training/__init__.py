"""Trains a model on a dataset and reports on it. May import pipeline/data, configs and models.

Start with run.py: it puts together what experiment/, engine/, loop/ and state/ provide. report/ tells how it
went.
"""
