"""Digests of raw files. Each file is read once: while its size and times stay, the cache knows its digest."""

import contextlib
import hashlib
import json
import os
import pathlib
import stat
import time
from collections.abc import Callable

from pipeline.data import atomic_files, file_state, ordinary_files, self_digest
from pipeline.data.ordinary_files import NotOrdinaryError

_CHUNK = 1 << 20  # bytes


class Digests:
    """SHA-256 by path.

    Args:
      path: of the cache. A damaged or absent one only costs time.
      clock: nanoseconds since 1970.
    """

    def __init__(self, path: pathlib.Path, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._path, self._clock = path, clock
        self._known: dict[str, list] = _loaded(path)
        self._asked: dict[str, list] = {}

    def of(self, file: str) -> str:
        """SHA-256, in hexadecimal. Raises OSError, as opening does."""
        state = file_state.of(file)
        known = self._known.get(file)
        if known and known[:-1] == list(state):
            self._asked[file] = known
            return known[-1]
        now = self._clock()
        digest = _sha256(file)
        if file_state.of(file) == state and state.is_settled(now):
            self._asked[file] = [*state, digest]
        return digest

    def save(self) -> None:
        """Keeps those that were asked for, where the disk takes them: without, they are computed again."""
        if self._asked != self._known:
            with contextlib.suppress(OSError):
                atomic_files.write_json(self._path, self_digest.with_digest(self._asked))


def _loaded(path: pathlib.Path) -> dict[str, list]:
    try:
        found = json.loads(ordinary_files.read_bytes(path))
        self_digest.check(found)
        return {file: list(entry) for file, entry in found.items() if file != self_digest.KEY}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return {}


def _sha256(file: str) -> str:
    digest = hashlib.sha256()
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)  # a pipe is not waited for
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotOrdinaryError(file)
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
    except OSError as error:
        error.filename = file
        raise
    finally:
        os.close(descriptor)
    return digest.hexdigest()
