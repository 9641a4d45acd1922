"""Retraining: what is there, what is due, what was done about it. One command, called as often as one likes.

May import all of release, training and pipeline/data. Start with reconcile.py: it looks (spans/), decides
(planning/) and runs a cycle (cycle.py, stages/). What happened stands in records/, and is told by told/.
"""
