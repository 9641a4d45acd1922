"""The outer loop, which knows no engine: when to log, evaluate, call back and save.

May import pipeline/data. Start with outer.py.
"""
