"""Compares two ways of computing the same: layers, updates and precision, number by number.

May import engine, experiment, replay, state, tasks, data and pipeline/report. Start with subject.py, which is
what is compared.
"""
