"""What all commands share: flags, --help, one line for an error, Ctrl-C.

May import pipeline/data. Start with run.py.
"""
