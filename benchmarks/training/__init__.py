"""What `benchmarks.train` compares: workloads.py makes models and batches, subjects.py trains on them."""
