"""Turns a trained model into a SavedModel with its preprocessing inside, and checks it by replay.

May import training, data and report. Start with export.py; signatures.py has the signatures of an export,
formats.py its files for LiteRT and ONNX. scoring.py evaluates an exported model.
"""
