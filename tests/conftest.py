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

COLLECTED_BYTES = 200 << 20  # a look through all of TensorFlow's objects takes seconds: not after every file


def pytest_collection_finish() -> None:
    """Takes what was imported out of the collector's sight: each look through TensorFlow takes a second."""
    if "tensorflow" in sys.modules:
        _without_tuning()
    gc.collect()
    gc.freeze()


def _without_tuning() -> None:
    """Turns TensorFlow's tuning off where a test's own dataset, or Keras's, says nothing about it.

    An iterator that is dropped waits for the thread of the tuning, which sleeps up to a minute: two workers
    lost more than a minute of a suite. TensorFlow 2.21 has no default for it that can be set, but asks each
    dataset for the options of its debug mode before it is read.
    """
    import tensorflow as tf

    untuned = tf.data.Options()
    untuned.autotune.enabled = False

    def apply(dataset: tf.data.Dataset) -> tf.data.Dataset:
        return dataset if dataset.options().autotune.enabled is False else dataset.with_options(untuned)

    tf.data.Dataset._apply_debug_options = apply


@pytest.fixture(scope="session")
def _kept_bytes() -> list[int]:
    """What the worker held when it last gave memory back."""
    return [0]


@pytest.fixture(autouse=True, scope="module")
def _memory_given_back(_kept_bytes: list[int]) -> Iterator[None]:
    """A worker keeps few graphs of files that it has run, and the C library none of their memory."""
    yield
    if keras := sys.modules.get("keras"):
        keras.backend.clear_session(free_memory=False)
    if _resident_bytes() > _kept_bytes[0] + COLLECTED_BYTES:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        _kept_bytes[0] = _resident_bytes()


def _resident_bytes() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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
