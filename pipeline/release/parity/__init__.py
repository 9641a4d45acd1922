"""Does the export decide as training did? The graph, float32, and training's own input: start with gate.py.

May import pipeline/data, training and the rest of release.
"""
