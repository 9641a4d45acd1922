"""The shared fixtures that these tests use."""

from tests.shared.fixtures.serving import export, put, serving  # noqa: F401
