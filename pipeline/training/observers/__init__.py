"""Tells others how a run goes: MLflow, Weights & Biases, TensorBoard HParams, OpenLineage, or own code.

May import base, state, loop and experiment. Start with observer.py, the interface; delivery.py keeps
a failing one from the run; registry.py makes those that a config names.
"""
