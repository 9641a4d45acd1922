"""Who writes to a place in an object store: one process at a time, and none that was given up for dead.

One object, `.lease`, says who. Its custom metadata hold the words, and all changes of it depend on its
generation, so they form one chain:

- It is created where there is none. It stays when it is released, since the token has to rise from it.
- Its holder writes it anew every third of `interval`. Who wants it looks, by a clock of its own, whether it
  changes: if it does, the holder lives; if it has not for `interval` seconds, it is taken over. No clock is
  compared with that of another machine.
- Each time it gets a holder, its fencing token rises by one.

A holder may be paused for as long as it takes to be given up, and wake. Two things stop it then. It looks at
its own clock before each request, so at most the request that was under way is still made. And what makes a
version one, `commit`, cannot be made at all: it is a copy of the lease object itself, and the store copies
that only if it has the generation that its holder gave it. (To delete what the old holder had staged, and
copy from there, would not do: one that is paused before it stages anything finds nothing amiss later.)
"""

import contextlib
import dataclasses
import pathlib
import threading
import uuid
from collections.abc import Iterator, Mapping

from pipeline.base.errors import TryAgainError
from pipeline.publishing.remote.bucket import ABSENT, Bucket, Elapsed, RealTime, RefusedError, Stored

NAME = ".lease"
INTERVAL = 30.0  # seconds
BEATS = 3  # in an interval


class LostError(TryAgainError):
    """The lease went to another process: whatever this one was about to do, that one does."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Words:
    """What the metadata say. `holder` is empty where nobody has it; `writing` names this one change."""

    holder: str
    token: int
    interval: float
    writing: str

    def to_metadata(self) -> dict[str, str]:
        return {name: str(value) for name, value in dataclasses.asdict(self).items()}

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> "Words":
        return cls(
            holder=metadata.get("holder", ""),
            token=int(metadata.get("token", 0)),
            interval=float(metadata.get("interval", INTERVAL)),
            writing=metadata.get("writing", ""),
        )


class Lease:
    """A lease that is held. `write`, `copy` and `delete` are those of Bucket, while it is."""

    def __init__(
        self, bucket: Bucket, before: Stored | None, *, holder: str, interval: float, time: Elapsed
    ) -> None:
        """Takes what nobody holds, or what was given up; raises RefusedError where `before` changed since."""
        token = Words.of(before.metadata).token + 1 if before else 1
        self._words = Words(holder=holder, token=token, interval=interval, writing="")
        self._bucket, self._time = bucket, time
        self._lock = threading.Lock()  # the heart beats in a thread of its own
        self._stored, self._since = before, time.now()
        self._put(b"")

    @property
    def token(self) -> int:
        return self._words.token

    @property
    def rest(self) -> float:
        """Seconds between two heartbeats."""
        return self._words.interval / BEATS

    def beat(self) -> None:
        """Raises LostError where another process has the lease."""
        with self._lock:
            self._renew(b"")

    def write(self, name: str, content: bytes | pathlib.Path) -> Stored:
        self.check()
        return self._bucket.write(name, content, generation=ABSENT)

    def copy(self, source: Stored, target: str) -> Stored:
        self.check()
        return self._bucket.copy(source, target)

    def delete(self, stored: Stored) -> None:
        self.check()
        self._bucket.delete(stored)

    def commit(self, name: str, content: bytes) -> Stored:
        """Creates an object that is there only if this lease was held when it appeared."""
        with self._lock:
            self._renew(content)
            try:
                return self._bucket.copy(self._stored, name)
            except RefusedError:
                there = self._bucket.find(name)
                # An answer may be lost on its way, and the library then asks again.
                if there and there.metadata.get("writing") == self._words.writing:
                    return there
                raise self._lost() from None

    def release(self) -> None:
        """The object stays, with its token."""
        with self._lock, contextlib.suppress(TryAgainError, RefusedError):
            self._words = dataclasses.replace(self._words, holder="")
            self._renew(b"")

    def check(self) -> None:
        """Raises LostError where the lease was not renewed in time: somebody else may have it."""
        if self._time.now() - self._since >= self._words.interval:
            raise self._lost()

    def _renew(self, content: bytes) -> None:
        self.check()
        try:
            self._put(content)
        except RefusedError:
            self._since = float("-inf")
            raise self._lost() from None

    def _put(self, content: bytes) -> None:
        words = dataclasses.replace(self._words, writing=uuid.uuid4().hex)
        before, asked = self._stored, self._time.now()
        try:
            generation = before.generation if before else ABSENT
            found = self._bucket.write(NAME, content, generation=generation, metadata=words.to_metadata())
        except RefusedError:
            found = self._bucket.find(NAME)  # refused, perhaps, because it had been done: see commit
            if found is None or found.metadata.get("writing") != words.writing:
                raise
        # From before the request on: the store may have had it as early as that.
        self._words, self._stored, self._since = words, found, asked

    def _lost(self) -> LostError:
        return LostError(
            f"lease {NAME}, token {self.token}",
            received="a lease that another process may have taken over: it was not renewed in time",
            expected="one that is held until the work is done",
            action="The same command goes on; what was half done is finished or removed.",
        )


# --- Takes the lease, keeps its heart beating in a thread, and gives it back.


@contextlib.contextmanager
def held(
    bucket: Bucket, *, holder: str, interval: float = INTERVAL, time: Elapsed | None = None
) -> Iterator[Lease]:
    """Holds the lease while the block runs, with its heart beating; waits for one that was given up.

    Args:
      holder: who this is, for people.
      interval: seconds without a heartbeat after which others may take it over.

    Raises:
      TryAgainError: another process has it and lives.
    """
    time = time or RealTime()
    lease = acquired(bucket, holder=holder, interval=interval, time=time)
    ended = threading.Event()
    heart = threading.Thread(target=_beat_until, args=(lease, ended, time), daemon=True)
    heart.start()
    try:
        yield lease
    finally:
        ended.set()
        heart.join()
        lease.release()


def acquired(bucket: Bucket, *, holder: str, interval: float, time: Elapsed) -> Lease:
    """A lease whose heart does not beat by itself; otherwise as `held`."""
    first, since = bucket.find(NAME), time.now()
    there = first
    while there and Words.of(there.metadata).holder:
        words = Words.of(there.metadata)
        if there.generation != first.generation:
            raise _busy(words)  # it was written while we looked: its holder lives
        if time.now() - since >= words.interval:
            break
        time.wait(min(words.interval / BEATS, words.interval - (time.now() - since)))
        there = bucket.find(NAME)
    try:
        return Lease(bucket, there, holder=holder, interval=interval, time=time)
    except RefusedError:
        found = bucket.find(NAME)
        raise _busy(Words.of(found.metadata if found else {})) from None


def _beat_until(lease: Lease, ended: threading.Event, time: Elapsed) -> None:
    while not time.wait_for(ended, lease.rest):
        try:
            lease.beat()
        except LostError:
            return
        except TryAgainError:
            pass  # the store may answer again before the lease is given up


def _busy(words: Words) -> TryAgainError:
    return TryAgainError(
        f"lease {NAME}",
        received=f"one that {words.holder or 'another process'} holds",
        expected="one that is free, or whose holder has not been heard of",
        action="Wait for that process to end; the same command goes on then.",
    )
