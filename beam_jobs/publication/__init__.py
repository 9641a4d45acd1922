"""An output directory that appears whole or not at all: claimed by one run, filled, vouched for last.

May import pipeline/data. Start with destination.py.
"""
