"""Who may make a version of a place: whoever wrote the object `.marker` last. No lease, no clock, no waiting.

A writer claims the place by writing the marker, then lists the place, then looks whether the marker is still
its own. From there on two things hold:

- Who claimed before it makes no version any more. `commit` writes the object that makes a version one into
  the marker, and copies it from there, on the condition that the marker has the generation of that write. The
  store tests the generation and copies in one step.
- Whatever it has listed was there before anyone claimed after it. It deletes what it listed, in the listed
  generation alone: never what a later writer has put there.

So a writer that was paused, and wakes when another has taken over, is told to try again: when it looks at the
marker or, at the latest, when it commits. One that was killed leaves the marker, which keeps nobody away.
"""

import contextlib
import uuid
from collections.abc import Iterator

from pipeline.base.errors import TryAgainError
from pipeline.publishing.remote.bucket import ABSENT, Bucket, RefusedError, Stored

NAME = ".marker"
_WRITING = "writing"  # in the metadata: names one write of the marker, and the copies of what it wrote


class LostError(TryAgainError):
    """Another process claimed the place: whatever this one was about to do, that one does."""


class Marker:
    """A claim of a place."""

    def __init__(self, bucket: Bucket, *, writer: str) -> None:
        """Claims the place; raises LostError where another process does so at the same moment.

        Args:
          writer: who this is, for people.
        """
        self._bucket, self._writer = bucket, writer
        self._stored = bucket.find(NAME)
        self._put(b"")

    def check(self) -> None:
        """Raises LostError where another process has claimed the place since."""
        found = self._bucket.find(NAME)
        if found is None or found.generation != self._stored.generation:
            raise _lost()

    def commit(self, name: str, content: bytes) -> Stored:
        """Creates an object that is there only if nobody else had claimed the place when it appeared."""
        marker = self._put(content)
        try:
            return self._bucket.copy(marker, name)
        except RefusedError:
            return self._answered(name, marker.metadata[_WRITING])

    def release(self) -> None:
        """Removes the marker, unless it is another's by now."""
        with contextlib.suppress(RefusedError):
            self._bucket.delete(self._stored)

    def _put(self, content: bytes) -> Stored:
        writing, generation = uuid.uuid4().hex, self._stored.generation if self._stored else ABSENT
        metadata = {"writer": self._writer, _WRITING: writing}
        try:
            self._stored = self._bucket.write(NAME, content, generation=generation, metadata=metadata)
        except RefusedError:
            self._stored = self._answered(NAME, writing)
        return self._stored

    def _answered(self, name: str, writing: str) -> Stored:
        """The object of a refused request that had been made already: the library repeats a request whose
        answer is lost.
        """
        found = self._bucket.find(name)
        if found is None or found.metadata.get(_WRITING) != writing:
            raise _lost()
        return found


@contextlib.contextmanager
def claimed(bucket: Bucket, *, writer: str) -> Iterator[Marker]:
    """Claims the place, and removes the marker after the block, whether or not it fails."""
    marker = Marker(bucket, writer=writer)
    try:
        yield marker
    finally:
        with contextlib.suppress(TryAgainError):  # the store is away; the next call removes it
            marker.release()


def _lost() -> LostError:
    return LostError(
        f"object {NAME}",
        received="one that another process has written or removed since: it publishes there now",
        expected="the one that was written at the start",
        action="The same command goes on; what was half done is finished or removed.",
    )
