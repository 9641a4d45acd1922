"""Compares two ways of computing the same numbers: layers, updates and precision.

May import engine, experiment, replay, state, tasks, data and pipeline/report. Start with subject.py, which
holds what is compared.
"""
