"""Tests, which may import any room; no room imports them. CONTRIBUTING.md says how they are run.

unit/ has a folder for each room, conformance/ a test for all entries of a table, commands/ whole commands,
programs/ the operations of shipped steps, soak/ long programs, house/ rules of the code (start with
arrows_test.py) and, in docs/, what generates and checks the pages, shared/ what several use.
"""
