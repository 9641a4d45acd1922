"""Typed rows → the bytes of records and shards.

May import pipeline/data. Start with layouts.py: it names the two ways that rows become records.
"""
