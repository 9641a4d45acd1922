"""What holds for every test."""

import contextlib
import ctypes
import gc
import os
import pathlib
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from pipeline.base import files
from tests.shared import warm

# A property test must not fail because the machine is busy.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_collection_finish() -> None:
    """Takes what was imported out of the collector's sight: each look through TensorFlow takes a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _memory_given_back() -> Iterator[None]:
    """A worker keeps no graphs of a file that it has run, and the C library none of their memory."""
    yield
    if keras := sys.modules.get("keras"):
        keras.backend.clear_session(free_memory=False)
    gc.collect()
    gc.freeze()  # what is left, libraries and their caches, stays until the end
    ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that fails is tried again at once."""
    monkeypatch.setattr(files, "RETRY_WAITS_S", (0.0,) * len(files.RETRY_WAITS_S))


@pytest.fixture(scope="session")
def without_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `import tensorflow` fails, and is told as a traceback."""
    folder = tmp_path_factory.mktemp("without")
    (folder / "tensorflow.py").write_text("raise AssertionError('TensorFlow was imported')")
    return os.environ | {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="session")
def python_without_tensorflow(
    tmp_path_factory: pytest.TempPathFactory, without_tensorflow: dict[str, str]
) -> Iterator[pathlib.Path]:
    """A `python` whose commands need not import Beam, for that environment."""
    with contextlib.ExitStack() as running:
        with pytest.MonkeyPatch.context() as patch:  # for the server alone: other tests need TensorFlow
            patch.setenv("PYTHONPATH", without_tensorflow["PYTHONPATH"])
            folder = tmp_path_factory.mktemp("warm")
            program = running.enter_context(warm.python(folder, imported=warm.WITHOUT_TENSORFLOW))
        yield program


@pytest.fixture(scope="session")
def warm_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """A `python` whose commands need not import TensorFlow and Beam: `tests/shared/warm.py`."""
    with warm.python(tmp_path_factory.mktemp("warm")) as program:
        yield program
