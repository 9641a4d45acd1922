"""What a retraining has done: receipts, the audit log, HOLD. The only state that there is.

May import pipeline/data. Start with root.py: it says where each file is.
"""
