"""Publishing to an object store, against Cloud Storage's emulator. Start with __main__.py."""
