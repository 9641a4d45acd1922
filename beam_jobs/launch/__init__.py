"""The skeleton of a Beam job, which `convert` and `predict` share: started, watched, reconciled, published.

May import sources, publication and pipeline/data. Start with run.py.
"""
