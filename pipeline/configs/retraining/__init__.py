"""Every setting of a retraining: base.py, with which a file of your own begins, one a model.

May import nothing of this project. What a value may be stands in pipeline/retraining/settings.py.
"""
