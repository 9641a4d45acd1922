"""While a run reads: finds and names data that is not what was published, and leaves out a few bad records.

`verify`, which checks a dataset as a whole, is beam_jobs/checks. May import reading, dataset, images and
schema. Start with damage.py.
"""
