"""One experiment a file. May import nothing but base.py, where everything that can be set stands."""
