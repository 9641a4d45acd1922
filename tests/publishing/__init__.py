"""Publishing under `kill -9`, and under readers that never stop. Start with __main__.py."""
