"""Publishes versions of a model, each as a whole: `DIRECTORY/<integer>/`, as TensorFlow Serving expects them.

May import data. Start with publish.py, which writes; versions.py reads, and is all that a reader needs. The
rest has names that Serving skips: `.staging-…`, `.quarantine/`, `.collected-…`, `.journal.json`.
"""
