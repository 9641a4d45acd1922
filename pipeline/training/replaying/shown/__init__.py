"""A replayed step for people and programs: on the terminal, as a page with pictures, as JSON.

Start with told.py: it puts an example into words, which all three show.
"""
