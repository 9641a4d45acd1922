"""Faults of earlier versions, put back to see whether the tests notice them."""
