"""Turns raw cells into typed values, a whole column at a time, by the feature that reads them.

May import pipeline/data. Start with typed.py: it parses one column and lists the rows that do not conform.
"""
