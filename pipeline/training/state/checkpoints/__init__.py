"""The checkpoints of a run on disk: which there are, whether one is whole, which are kept.

Each is a directory `step-STEP` that appears whole, by a rename. Start with manifest.py.
"""
