"""The shared fixtures that these tests use."""

from tests.shared.fixtures.buckets import bucket, follow  # noqa: F401
