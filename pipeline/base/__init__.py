"""Serves all rooms: errors, files that appear whole, documents with a digest, TensorFlow's start.

May import nothing of this project. Start with errors.py: every error that a user can cause is made there.
"""
