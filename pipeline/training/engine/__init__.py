"""TensorFlow's part of training: strategy, precision, the compiled steps, checkpoints, evaluation.

May import tasks, loop, state and pipeline/data. Start with inner.py.
"""
