"""Retrains on a schedule: which data is there, what is due, what was done. May import all other rooms.

Start with reconcile.py, which may be called as often as one likes: it surveys the spans (datasets.py), plans
(plan.py) and runs a cycle (cycle.py, stages.py). records.py keeps what happened, status.py shows it.
"""
