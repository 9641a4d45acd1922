"""What is measured of every feature: accumulators that merge exactly, in any order, and what they come to.

May import schema and dataset. Start with loading.py; accumulators.py says what is gathered. The file that
other tools read is dataset/statistics.py's.
"""
