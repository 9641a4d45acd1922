"""How a version goes from a place: first what makes it one, so that nobody finds half of it whole."""

from collections.abc import Sequence

from pipeline.data.errors import TryAgainError
from pipeline.release.publish import publication
from pipeline.release.publish.remote.bucket import RefusedError, Stored
from pipeline.release.publish.remote.lease import Lease
from pipeline.release.publish.remote.stored import GRAPH, StoredVersion


def remove(lease: Lease, version: StoredVersion) -> None:
    """Deletes saved_model.pb, publication.json and then the rest, each only as it was listed."""
    first = [version.files[name] for name in (GRAPH, publication.FILE_NAME) if name in version.files]
    clear(lease, [*first, *(stored for stored in version.files.values() if stored not in first)])


def clear(lease: Lease, objects: Sequence[Stored]) -> None:
    """Raises TryAgainError where one was changed since it was listed."""
    for stored in objects:
        try:
            lease.delete(stored)
        except RefusedError as error:
            raise TryAgainError(
                f"object {stored.name}",
                received=f"one that another process changed meanwhile ({error})",
                expected="the one that was listed",
                action="The same command goes on with what is there then.",
            ) from None
