"""A run's state, copied from the devices, written beside training, and put back.

May import what the engine may; names and digests of files are in state/checkpoints. Start with checkpoint.py.
"""
