"""Reads files that have an end: a pipe is not waited for, and a device is not read."""

import errno
import io
import os
import stat


class NotOrdinaryError(OSError):
    """A pipe, a socket or a device stands where a file is expected."""

    def __init__(self) -> None:
        super().__init__(errno.EINVAL, "not an ordinary file")


def read_bytes(path: str | os.PathLike) -> bytes:
    """The content of a file; raises OSError, as opening does, and NotOrdinaryError."""
    with io.FileIO(path, opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NotOrdinaryError
        return file.readall()


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe is not waited for
