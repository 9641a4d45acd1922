"""Keras models: plain sizes in, keras.Model out. May import nothing else of this project.

Start with registry.py.
"""
