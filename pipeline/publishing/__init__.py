"""Publishes versions of a model, never half there: `DIRECTORY/<integer>/`, as TensorFlow Serving has them.

May import data. Start with publish.py, which writes; versions.py reads, and is all that a reader needs.
Names that Serving passes over hold the rest: `.staging-…`, `.quarantine/`, `.collected-…`, `.journal.json`.
"""
