"""Reports a run to its user: terminal, history, TensorBoard, and one HTML page.

May import state, tasks, data, feed and pipeline/report. Start with reporter.py, then page.py.
"""
