"""Every setting of a retraining is in base.py. A file of your own, one for each model, begins with it.

May import nothing of this project. pipeline/retraining/settings.py says which values are valid.
"""
