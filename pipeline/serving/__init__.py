"""Checks that a fresh process serves an exported model as recorded, fast and small enough.

May import exporting, data and report. Start with check.py. client.py says what a client does; servers.py has
those that ask a running TensorFlow Serving, probe.py asks the model itself in a fresh process.
"""
