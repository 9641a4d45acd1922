"""Builds what is trained: the model, the data and the optimizer that a config names.

May import engine, tasks, models and data. Start with model.py.
"""
