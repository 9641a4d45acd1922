"""Does a fresh process serve the exported model as recorded, fast and small enough? Start with check.py.

Requests and answers are TensorFlow Serving's own messages. May import pipeline/data and the rest of release.
"""
