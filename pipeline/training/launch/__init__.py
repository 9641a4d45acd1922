"""Starts other processes that train: `--workers=N` on one machine, and a sweep over values of the config.

May import data and state, but no TensorFlow before the processes have ended. Start with workers.py, sweep.py.
"""
