"""Starts other processes that train: `--workers=N` on one machine, and a sweep over values of the config.

May import state, tasks, data and pipeline/report, but no TensorFlow before the processes have ended. Start
with workers.py, sweep.py.
"""
