"""What holds for every test."""

import pathlib
from collections.abc import Iterator

import pytest
from hypothesis import settings

from pipeline.base import files
from tests.shared import warm

# A property test must not fail because the machine is busy.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that fails is tried again at once."""
    monkeypatch.setattr(files, "RETRY_WAITS_S", (0.0,) * len(files.RETRY_WAITS_S))


@pytest.fixture(scope="session")
def warm_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """A `python` whose commands need not import TensorFlow and Beam: `tests/shared/warm.py`."""
    with warm.python(tmp_path_factory.mktemp("warm")) as program:
        yield program
