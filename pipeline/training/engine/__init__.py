"""Runs the compiled part of training with TensorFlow: strategy, precision, steps, checkpoints, evaluation.

May import tasks, loop, state and data. Start with step.py.
"""
