"""Checks of pipeline.retrain that are too long for the tests: a month of data, kills, many callers.

Start with __main__.py; `make retraining-check` runs all of it.
"""
