"""A TFRecord dataset → a trained, evaluated, exported model. The files here are commands.

data/ reads datasets, training/ trains, release/ exports and scores, configs/ holds one experiment a file.
"""
