"""Compares ways of computing that must agree, for `parity`: layers, updates, precision. For `conform`, tests
whether a model does what training and exports rely on.

May import engine, experiment, replay, state, tasks, data and pipeline/report. Start with subject.py, which
holds what is compared.
"""
