"""Where libraries put their temporary files."""

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def kept_in(directory: pathlib.Path) -> Iterator[None]:
    """What is interrupted leaves such files: in a directory that is cleared anyway they go with the rest."""
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before
