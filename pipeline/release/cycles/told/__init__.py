"""Tells people what is planned, running and done: lines in a terminal, pages for a browser.

May import records, planning, stages/job.py and training/report's drawing. Start with status.py.
"""
