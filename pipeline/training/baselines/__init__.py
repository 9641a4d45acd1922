"""What answers without a network would be worth: mean or prior, a linear model, gradient boosting.

Fitted by scikit-learn, which is optional, on the rows that the network was trained on. May import the gate,
whose intervals they are compared with. Start with baselines.py.
"""
