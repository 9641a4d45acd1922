"""Renders tables, figures and pages, as HTML and SVG, for all rooms.

May import base. Start with html.py; charts.py and axes.py draw, comparison.py compares arrays and renders
what differs.
"""
