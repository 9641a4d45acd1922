"""Is the challenger better than the champion, by more than chance? Start with verdict.py.

Arrays in, a verdict out: NumPy, SciPy and statsmodels, no TensorFlow. May import pipeline/data.
"""
