"""Runs the outer loop, which knows no engine: when to log, evaluate, call back and save.

May import state and data. Start with outer.py.
"""
