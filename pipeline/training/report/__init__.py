"""Reports a run to its user: terminal, history, TensorBoard, and one HTML page.

May import state, tasks, data and pipeline/report. Start with reporter.py, whose write_report puts the page
together, then inputs.py.
"""
