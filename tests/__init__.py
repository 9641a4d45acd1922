"""Tests, which may import any room; no room imports them. CONTRIBUTING.md says how they are run.

unit/ has a folder for each room, conformance/ a test for all entries of a table, commands/ whole commands,
programs/ what shipped steps compute, soak/ long programs, house/ rules of the code (start with
arrows_test.py), shared/ what several use.
"""
