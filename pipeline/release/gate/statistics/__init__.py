"""Metrics of models on the same examples: estimates, intervals and p-values, with the sources of formulas.

Start with estimates.py. Imports nothing of the project.
"""
