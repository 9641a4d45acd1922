"""Decides what is due: which spans, which cycle, and why. Changes nothing.

May import records, spans, and publish. Start with plan.py.
"""
