"""A disk that is full, for this process alone."""

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def no_room(limit: int) -> Iterator[None]:
    """Within it no file may have more bytes: for the writer it is as a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
