"""The shared fixtures that these tests use."""

from tests.shared.fixtures.exports import exported, module, requests, trained, warm  # noqa: F401
