"""The shared fixtures that these tests use."""

import os

import pytest

from tests.shared.fixtures.serving import export, put, serving  # noqa: F401


@pytest.fixture(autouse=True)
def _no_disk_that_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that kills a process before each of its steps would wait for thousands of writes."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
