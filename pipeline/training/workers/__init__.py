"""`--workers=N`: a run as several processes of one machine. May import pipeline/data, but no TensorFlow.

Start with launch.py.
"""
