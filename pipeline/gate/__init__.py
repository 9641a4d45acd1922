"""Decides whether a challenger is better than the champion, by more than chance: arrays in, a verdict out.

NumPy, SciPy and statsmodels, no TensorFlow. May import base. Start with verdict.py; metrics.py has the
metrics that the gate compares, which are not those that training logs.
"""
