"""Retrains on a schedule: which data is there, what is due, what was done. May import all rooms but configs.

Start with reconcile.py, which may be called as often as one likes: it surveys the spans (datasets.py), plans
(plan.py) and runs a cycle. cycle.py has the order of the stages, stages.py and decision.py do their work,
status.py formats a line for each. records.py keeps what happened.
"""
