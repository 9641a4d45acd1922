"""What a cycle does, a stage a file: each is run until its receipt is there, and may be run again.

May import records, planning, and all of release. Start with job.py: it is what every stage gets.
"""
