"""Retrains on a schedule: which data is there, what is due, what was done. May import all rooms but configs.

Start with reconcile.py, which may be called as often as one likes: it surveys the spans (datasets.py), plans
(plan.py) and runs a cycle. Stages are functions in stages.py and decision.py. A new one also goes into STAGES
of cycle.py, which has their order, and STAGES of status.py, which formats a line for each. records.py keeps
what happened.
"""
