"""What AutoGraph is asked to rewrite."""

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator

import pytest
from tensorflow.python.autograph.impl import api


@contextlib.contextmanager
def recording() -> Iterator[list[pathlib.Path]]:
    """Gives where the file of each function goes that AutoGraph is to rewrite, also if it did so before."""
    asked = []

    class Recorder:
        def transform(self, function: object, context: object) -> None:
            asked.append(pathlib.Path(tempfile.gettempdir()))
            raise NotImplementedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "_TRANSPILER", Recorder())
        yield asked
