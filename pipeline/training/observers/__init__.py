"""Reports a run to other services: MLflow, Weights & Biases, TensorBoard HParams, OpenLineage, or own code.

May import base, state, loop and experiment. Start with observer.py, the interface; delivery.py keeps a
failing observer from disturbing the run; registry.py makes those that a config names.
"""
