"""A process that brings a place to a serving directory, and that a test kills or pauses at any request."""

import itertools
import pathlib
import random
import sys
from collections.abc import Callable

from pipeline.base.errors import TryAgainError
from pipeline.publishing.remote import follow as follow_lib
from pipeline.publishing.remote.cloud_storage import GoogleBucket
from pipeline.publishing.remote.stored import Differences
from tests.shared import plain_export
from tests.store import emulator

TRY_AGAIN = 75
_FILES, _BYTES = 2, 20_000


class Hooked:
    """A bucket; `before` gets the number of each request, from 0, ahead of it."""

    def __init__(self, bucket: GoogleBucket, before: Callable[[int], None]) -> None:
        self._bucket, self._before = bucket, before
        self._count = itertools.count()

    def __getattr__(self, verb: str) -> Callable:
        def ask(*args: object, **more: object) -> object:
            self._before(next(self._count))
            return getattr(self._bucket, verb)(*args, **more)

        return ask


def follow(
    directory: pathlib.Path,
    prefix: str,
    *,
    before: Callable[[int], None] = lambda count: None,
) -> Differences:
    bucket = Hooked(GoogleBucket(emulator.BUCKET, prefix), before)
    url = f"gs://{emulator.BUCKET}/{prefix}"
    return follow_lib.follow(bucket, directory, url=url)


def follow_or_exit(directory: pathlib.Path, prefix: str, **more: object) -> None:
    """What a forked process does: exit code 75 stands for TryAgainError."""
    try:
        follow(directory, prefix, **more)
    except TryAgainError as error:
        print(error)
        sys.exit(TRY_AGAIN)


def follow_at_last(directory: pathlib.Path, prefix: str) -> int:
    """Calls again as a scheduler would, 100 times at most; returns how often it was told to."""
    tries = 0
    while tries < 100:
        try:
            follow(directory, prefix)
            break
        except TryAgainError:
            tries += 1
    return tries


def write_export(folder: pathlib.Path, draw: random.Random) -> pathlib.Path:
    files = {f"variables/{part}": draw.randbytes(_BYTES) for part in range(_FILES)}
    return plain_export.write(folder, {"saved_model.pb": draw.randbytes(1000), **files})
