"""Estimates, intervals and p-values of metrics on the same examples, with the sources of their formulas.

May import nothing of this project. Start with estimates.py.
"""
