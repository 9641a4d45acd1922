"""Serves all rooms: errors, files that appear whole, documents with a digest, TensorFlow's start.

May import nothing of this project. Start with errors.py: InputError has the form of every error that a user
can cause, and answer() prints it.
"""
