"""Turns raw cells into typed values, a whole column at a time, as the column's feature in the schema says.

May import pipeline/data. Start with typed.py: it parses one column and lists the rows that do not conform.
"""
