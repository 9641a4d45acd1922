"""What a schedule retrains, one file a model. Start with base.py, which has every setting."""
