"""Certifies an input pipeline: what each stage delivers, which one is the limit, what to change.

May import data and report. Start with certificate.py; measure.py measures the stages.
"""
