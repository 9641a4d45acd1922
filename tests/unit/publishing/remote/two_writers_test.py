"""Two processes write to one place at once, in any order of their requests: it is right at every moment."""

import contextlib
import hashlib
import itertools
import pathlib
import random
import shutil
import threading
from collections.abc import Callable

import pytest

from pipeline.base.errors import InputError, TryAgainError
from pipeline.publishing import publish, versions
from pipeline.publishing.remote import stored as stored_lib
from tests.shared.fixtures.serving import AT
from tests.shared.matrix import quick_cases
from tests.shared.memory_bucket import MemoryBucket


class Turns:
    """Runs writers in threads, one request at a time: whose it is next is drawn. The other one stands still.

    After each request, every version that could be loaded is read.
    """

    def __init__(self, bucket: MemoryBucket, seed: int) -> None:
        self._bucket, self._draw = bucket, random.Random(seed)
        self._turn = threading.Condition()
        self._running: list[str] = []
        self._next = ""
        self._errors: list[BaseException] = []

    def run(self, **writers: Callable[[object], object]) -> None:
        self._running, self._next = [*writers], self._draw.choice([*writers])
        threads = [threading.Thread(target=self._write, args=each) for each in writers.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert self._errors == []

    def _write(self, name: str, write: Callable[[object], object]) -> None:
        self._wait(name)
        try:
            write(InTurns(self._bucket, lambda: self._end_turn(name)))
        except BaseException as error:
            self._errors.append(error)
        with self._turn:
            self._running.remove(name)
            self._pass_on()

    def _end_turn(self, name: str) -> None:
        assert_whole(self._bucket)
        with self._turn:
            self._pass_on()
        self._wait(name)

    def _wait(self, name: str) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._next == name)

    def _pass_on(self) -> None:
        self._next = self._draw.choice(self._running) if self._running else ""
        self._turn.notify_all()


class InTurns:
    """A bucket; `end` is called after each request."""

    def __init__(self, bucket: MemoryBucket, end: Callable[[], None]) -> None:
        self._bucket, self._end = bucket, end

    def __getattr__(self, verb: str) -> Callable:
        def ask(*args: object, **more: object) -> object:
            try:
                return getattr(self._bucket, verb)(*args, **more)
            finally:
                self._end()

        return ask


def served(bucket: MemoryBucket) -> list[int]:
    return sorted(number for number, found in stored_lib.look(bucket).versions.items() if found.is_loadable)


def assert_whole(bucket: MemoryBucket) -> None:
    """Each version that can be loaded has the files of its publication.json, with their bytes."""
    for number, found in stored_lib.look(bucket).versions.items():
        if found.is_loadable:
            there = {name: bucket.read(stored) for name, stored in found.files.items()}
            said = versions.loads(there.pop(versions.FILE_NAME), pathlib.Path(versions.FILE_NAME))
            digests = {name: hashlib.sha256(content).hexdigest() for name, content in there.items()}
            assert digests == {name: each["sha256"] for name, each in said["files"].items()}, number


def until_done(write: Callable[[], object]) -> None:
    """Calls again where it is told to, as a scheduler does."""
    while True:
        with contextlib.suppress(TryAgainError):
            return write()


@pytest.mark.parametrize("seed", quick_cases(range(8), [0, 1]))
def test_of_the_same_versions(put, follow, seed: int):
    put("c1"), put("c2")
    bucket = MemoryBucket()
    Turns(bucket, seed).run(
        one=lambda turns: until_done(lambda: follow(turns)),
        other=lambda turns: until_done(lambda: follow(turns)),
    )
    assert served(bucket) == [1, 2]
    follow(bucket)
    assert {stored.name.partition("/")[0] for stored in bucket.list()} == {"1", "2"}


def test_of_which_one_has_an_old_copy_with_a_version_that_was_taken_back(put, serving, follow, tmp_path):
    put("c1"), put("c2")
    old = shutil.copytree(serving, tmp_path / "old")
    follow(before := MemoryBucket())
    publish.take_back(serving, 2, reason="NaN", at=AT)
    put("c3")
    for empty, seed in itertools.product((True, False), range(8)):
        bucket = MemoryBucket() if empty else before.twin()
        Turns(bucket, seed).run(
            new=lambda turns: until_done(lambda: follow(turns)), old=lambda turns: once(follow, turns, old)
        )
        assert served(bucket) == [1, 3]
        follow(bucket)
        assert {stored.name.partition("/")[0] for stored in bucket.list()} == {"1", "3"}


def once(follow, bucket, old):
    """Calls once: it is told to try again, or finds version 3, which was never published there."""
    with contextlib.suppress(InputError):
        follow(bucket, old)
