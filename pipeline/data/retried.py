"""Reads that fail are tried again: a disk or a network may answer a moment later."""

import errno
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from pipeline.data.errors import TryAgainError

T, Item = TypeVar("T"), TypeVar("Item")

WAITS_S = (0.01, 0.04, 0.16, 0.64, 2.56)  # between tries

# Of these, another try gives the same.
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


def retried(read: Callable[[], T], *, wait: Callable[[float], None] = time.sleep) -> T:
    """What `read` returns; raises its OSError where the last try fails too."""
    for seconds in WAITS_S:
        try:
            return read()
        except OSError as error:
            if is_final(error):
                raise
            wait(seconds)
    return read()


def told(read: Callable[[], T]) -> T:
    """The same, of a `read` whose errors name their file; raises TryAgainError where the last try fails too.

    What another try gives the same is raised as it is.
    """
    try:
        return retried(read)
    except OSError as error:
        if is_final(error):
            raise
        raise unreadable(error.filename, error) from None


def one_by_one(read: Callable[[Sequence[Item]], T], items: Sequence[Item]) -> list[T]:
    """`read` of all items at once; where that fails, item by item: of 64, another would fail at the next try.

    Raises as `told` does.
    """
    try:
        return [read(items)]
    except OSError:
        pass
    return [told(lambda: read([item])) for item in items]  # noqa: B023 - called at once


def is_final(error: OSError) -> bool:
    """Whether another try gives the same."""
    return isinstance(error, _FINAL) or error.errno in (errno.ELOOP, errno.EINVAL, errno.ENAMETOOLONG)


def unreadable(path: str, error: OSError) -> TryAgainError:
    """What to tell of a file that no try could read."""
    return TryAgainError(
        f"dataset file {path}",
        received=f"{error.strerror or error}, after {len(WAITS_S) + 1} tries",
        expected="a file that can be read",
        action="Look after the disk or the network, and run the same command again.",
    )
