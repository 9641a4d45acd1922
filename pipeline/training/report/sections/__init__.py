"""The sections of the report page, one a file. May import drawing, state, tasks and pipeline/data.

Start with inputs.py, which reads what the sections show.
"""
