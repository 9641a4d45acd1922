"""Turns a trained model into a SavedModel with its preprocessing inside, and checks it by replay.

May import training and data. Start with export.py; signatures.py says what can be asked of an export.
"""
