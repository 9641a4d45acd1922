"""Builds the model, the data and the optimizer that a config names.

May import engine, loop, state, tasks, models and data. Start with config.py, which checks a config and lists
our optimizers; model.py, data.py, optimizer.py and objective.py build what it names.
"""
