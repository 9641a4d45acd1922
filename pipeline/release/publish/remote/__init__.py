"""The versions of a serving directory, brought to an object store: the same ones, under the same numbers.

Start with follow.py. lease.py says who writes, upload.py how a version appears, removal.py how it goes,
stored.py what is there. bucket.py is what is asked of a store, and cloud_storage.py asks it of Google's.
"""
