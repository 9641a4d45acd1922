"""Reads rows in a seeded order, from any position on, on any number of hosts.

May import dataset and schema. Start with stream.py; order.py says which row stands at a position.
"""
