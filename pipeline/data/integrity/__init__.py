"""Finds and names stored data that is not what was published, and leaves it out within a budget.

May import reading, dataset, images and schema. Start with damage.py.
"""
