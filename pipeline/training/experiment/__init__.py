"""What is trained: the model, the data and the optimizer that a config names.

May import engine, tasks, models and pipeline/data. Start with model.py.
"""
