"""How fast datasets are read where every read takes 10 ms, and some fail: `make slow-check`."""
