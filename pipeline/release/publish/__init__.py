"""Versions of a served model, never half there: `DIRECTORY/<integer>/`, as TensorFlow Serving has them.

Start with publish.py, which writes; versions.py reads, and is all that a reader needs. What is not published
lies under names that Serving passes over: `.staging-…`, `.quarantine/`, `.collected-…`, `.journal.json`.
May import pipeline/data.
"""
