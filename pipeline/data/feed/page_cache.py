"""How much of files Linux's page cache holds, and how to have them read from the disk again, without root."""

import ctypes
import dataclasses
import mmap
import os
import pathlib
from collections.abc import Sequence

import numpy as np

MAPS = pathlib.Path("/proc/self/maps")

_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Residency:
    """Of local files."""

    bytes: int
    resident: float | None  # share of the bytes that the page cache holds; None: the kernel does not say


def residency(paths: Sequence[str]) -> Residency | None:
    """None if a file is not local."""
    try:
        sizes = [pathlib.Path(path).stat().st_size for path in paths]
    except OSError:
        return None
    # Since Linux 5.2, `mincore` calls every page resident where the asker may not write to the file.
    is_told = all(os.access(path, os.W_OK) for path in paths)
    resident = sum(map(_resident_bytes, paths)) / max(1, sum(sizes)) if is_told else None
    return Residency(bytes=sum(sizes), resident=resident)


def evict(paths: Sequence[str]) -> None:
    """Has the kernel forget the files' pages. What it keeps all the same, `residency` tells."""
    _unmap({os.path.realpath(path) for path in paths})
    for path in paths:
        with pathlib.Path(path).open("rb") as file:
            os.fsync(file.fileno())  # pages that are not written yet would stay
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _resident_bytes(path: str) -> int:
    size = pathlib.Path(path).stat().st_size
    if not size:
        return 0
    told = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    with pathlib.Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as view:
        first = ctypes.c_char.from_buffer(view)
        failed = _LIBC.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), told)
        del first  # or the map could not be closed
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    pages = np.count_nonzero(np.frombuffer(told, np.uint8) & 1)
    return min(size, int(pages) * mmap.PAGESIZE)


def _unmap(files: set[str]) -> None:
    """Takes the files' pages out of this process's maps, as the kernel keeps what is mapped.

    They are read again when they are touched. Nobody writes to them: they are mapped to be read.
    """
    for line in MAPS.read_text().splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5] in files:
            start, end = (int(address, 16) for address in words[0].split("-"))
            _LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)
