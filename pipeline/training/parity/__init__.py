"""Compares two ways of computing the same: layers, updates and precision, number by number.

May import the rest of training. Start with subject.py, which is what is compared.
"""
