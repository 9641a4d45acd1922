"""Brings the versions of a serving directory to an object store, under the same numbers.

May import publishing. Start with follow.py; upload.py makes a version appear. bucket.py says what a store
must do; cloud_storage.py is the only store so far, and its parse() reads the URL.
"""
