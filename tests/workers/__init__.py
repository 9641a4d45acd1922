"""What several workers promise, on real processes: start with __main__.py."""
