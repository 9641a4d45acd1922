"""Checks that a fresh process serves an exported model as recorded, fast and small enough.

May import exporting, data and report. Start with check.py; servers.py checks a running TensorFlow Serving.
Both send requests through client.py.
"""
