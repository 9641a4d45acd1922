"""The tasks of a model: logits, losses, predictions, metrics. May import pipeline/data.

Start with task.py, which says what a task is; registry.py names them. classification.py also has regression.
A new metric goes into a task's accumulator and its `metrics`; the gate's metrics are in
pipeline/gate/metrics.py.
"""
