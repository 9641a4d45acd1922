"""Measures every feature: accumulators that merge exactly, in any order, and the statistics they give.

May import schema and dataset. Start with loading.py; accumulators.py says what is gathered, drift.py compares
two distributions. The file that other tools read is dataset/statistics.py's.
"""
