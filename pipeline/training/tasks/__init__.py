"""The tasks of a model: logits, losses, predictions, metrics. May import pipeline/data.

Start with task.py, which says what a task is; registry.py names them.
"""
