"""One training run, from a request to its last checkpoint and its report.

May import the rest of training but launch and parity, and data, feed and pipeline/report. Start with run.py;
setup.py lists what is decided before the model is built.
"""
