"""Reads that fail are tried again: a disk or a network may answer a moment later."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WAITS_S = (0.01, 0.04, 0.16, 0.64, 2.56)  # between tries

# Of these, another try gives the same.
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


def retried(read: Callable[[], T], *, wait: Callable[[float], None] = time.sleep) -> T:
    """What `read` returns; raises its OSError where the last try fails too."""
    for seconds in WAITS_S:
        try:
            return read()
        except _FINAL:
            raise
        except OSError:
            wait(seconds)
    return read()
