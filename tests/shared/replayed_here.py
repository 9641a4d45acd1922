"""The replay of an export in a test's own process: one more with TensorFlow would be most of its time."""

import contextlib
import functools
import pathlib
from collections.abc import Callable

import pytest

from pipeline.exporting import export, replay


def replay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def fresh(directory: pathlib.Path) -> contextlib.AbstractContextManager[Callable[[], dict]]:
        return contextlib.nullcontext(functools.partial(replay.replay, directory))

    monkeypatch.setattr(export, "fresh_process", fresh)
