"""Takes the lease, keeps its heart beating in a thread, and gives it back."""

import contextlib
import threading
from collections.abc import Iterator

from pipeline.data.errors import TryAgainError
from pipeline.release.publish.remote.bucket import Bucket, RefusedError
from pipeline.release.publish.remote.elapsed import Elapsed, RealTime
from pipeline.release.publish.remote.lease import BEATS, INTERVAL, NAME, Lease, LostError, Words


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
