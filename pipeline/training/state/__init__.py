"""Keeps a run on disk: its record, history, goodput log and checkpoints.

May import data. Start with workdir.py, which says where each file is.
"""
