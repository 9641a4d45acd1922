"""What holds for every test."""

from hypothesis import settings

# A property test must not fail because the machine is busy.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
