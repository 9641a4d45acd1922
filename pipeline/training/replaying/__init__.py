"""Any step of any run once more: its batch, the records in it, and what each costs under a checkpoint.

Needs no log: the row at a position follows from the seed. Start with training_stream.py.
"""
