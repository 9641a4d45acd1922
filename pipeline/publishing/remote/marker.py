"""A claim to a place: only the last writer of the object `.marker` can make a version. There is no lease and
no clock.

A writer claims the place by writing the marker, lists the place, and checks that the marker is still its own.
Then two things hold:

- Earlier writers can make no version. `commit` writes saved_model.pb into the marker, and copies it from
  there on the condition that the marker has the generation of that write. The store tests the generation and
  copies in one step. - The listed objects were there before any later claim. The writer deletes them only in
  the listed generation, so never what a later writer has put there.

So a writer that was paused gets a LostError once another has taken over: when it checks the marker or, at the
latest, when it commits. A killed writer leaves the marker, which keeps nobody away.
"""

import contextlib
import uuid
from collections.abc import Iterator

from pipeline.base.errors import TryAgainError
from pipeline.publishing.remote.bucket import ABSENT, Bucket, RefusedError, Stored

NAME = ".marker"
_WRITING = "writing"  # a key of the metadata: the id of a write, which copies keep


class LostError(TryAgainError):
    """Raised where another process has claimed the place, and will do the work of this one."""


class Marker:
    """A claim to a place."""

    def __init__(self, bucket: Bucket, *, writer: str) -> None:
        """Claims the place; raises LostError where another process does so at the same moment.

        Args:
          writer: name of this process, for people.
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
        """Creates an object, unless another process has claimed the place."""
        marker = self._put(content)
        try:
            return self._bucket.copy(marker, name)
        except RefusedError:
            return self._answered(name, marker.metadata[_WRITING])

    def release(self) -> None:
        """Removes the marker, unless another process has taken it."""
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
        """Returns the object of a refused request that had succeeded: the library repeats a request after a
        lost answer.
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
        # The store cannot be reached; the next call removes the marker.
        with contextlib.suppress(TryAgainError):
            marker.release()


def _lost() -> LostError:
    return LostError(
        f"object {NAME}",
        received="one that another process has written or removed since: it publishes there now",
        expected="the one that was written at the start",
        action="The same command goes on; what was half done is finished or removed.",
    )
