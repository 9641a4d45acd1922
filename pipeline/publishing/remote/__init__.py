"""Brings the versions of a serving directory to an object store, under the same numbers.

May import publishing. Start with follow.py; upload.py makes a version appear, bucket.py is the store.
"""
