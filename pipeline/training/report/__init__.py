"""What a run tells its user: terminal, history, TensorBoard, and one HTML page.

May import state, tasks and pipeline/data. Start with reporter.py, then page.py.
"""
