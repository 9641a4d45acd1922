"""What `python -m benchmarks.gate` judges."""
