"""Figures and tables as HTML and SVG. May import pipeline/data/feed, for the certificate's picture.

Start with markup.py.
"""
