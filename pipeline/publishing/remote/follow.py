"""Brings a place in an object store to the state of a serving directory."""

import os
import pathlib
import socket
from collections.abc import Callable, Sequence

from pipeline.base.errors import InputError, TryAgainError
from pipeline.publishing import versions
from pipeline.publishing.remote import marker as marker_lib
from pipeline.publishing.remote import stored as stored_lib
from pipeline.publishing.remote import upload
from pipeline.publishing.remote.bucket import Bucket, RefusedError, Stored
from pipeline.publishing.remote.marker import Marker
from pipeline.publishing.remote.stored import CONTENT, GRAPH, Differences, Listing, Local, StoredVersion


def follow(
    bucket: Bucket,
    directory: pathlib.Path,
    *,
    url: str,
    tell: Callable[[Differences], None] = lambda found: None,
) -> Differences:
    """Publishes the versions that the place lacks, and removes those that it should not have; returns the
    differences.

    Every step may be repeated: the remains of a killed process are found by listing, without a record. If
    nothing differs and nobody writes there, the store gets one request, a listing.

    Args:
      url: the place, for messages.
      tell: called before anything is changed.

    Raises:
      InputError: the place has versions that this directory never published; nothing is changed then.
      TryAgainError: another process began to write there meanwhile, or the store does not answer.
    """
    here = stored_lib.local(directory)
    found = stored_lib.differences(here, stored_lib.look(bucket))
    _check_ours(found, here, url)
    if found.none:
        return found
    with marker_lib.claimed(bucket, writer=f"process {os.getpid()} of host {socket.gethostname()}") as marker:
        here, there = stored_lib.local(directory), stored_lib.look(bucket)
        marker.check()  # then what is listed was there before any other claim, and may be removed
        found = stored_lib.differences(here, there)
        _check_ours(found, here, url)
        _check_gone(bucket, found, here, there, url)
        tell(found)
        _settle(bucket, marker, here, there, found)
        marker.check()  # otherwise another process is about to copy it
        _clear(bucket, bucket.list(CONTENT))
    return found


def _settle(bucket: Bucket, marker: Marker, here: Local, there: Listing, found: Differences) -> None:
    """Publishes and removes versions. Removals come first, to make room; but if no right version is there
    yet, one is published before them.
    """
    for number in found.broken:
        _remove(bucket, there.versions[number])
    missing = list(found.missing)
    if missing and not found.right:
        upload.publish(bucket, marker, here.directory, missing.pop(0))
    for number in found.gone:
        _remove(bucket, there.versions[number])
    for number in missing:
        upload.publish(bucket, marker, here.directory, number)


def _remove(bucket: Bucket, version: StoredVersion) -> None:
    """Deletes saved_model.pb first: it makes a folder a version, so nobody takes the remains for one."""
    first = [version.files[name] for name in (GRAPH, versions.FILE_NAME) if name in version.files]
    _clear(bucket, [*first, *(stored for stored in version.files.values() if stored not in first)])


def _clear(bucket: Bucket, objects: Sequence[Stored]) -> None:
    """Deletes objects in the generation that was listed; raises TryAgainError where one has changed since."""
    for stored in objects:
        try:
            bucket.delete(stored)
        except RefusedError as error:
            raise TryAgainError(
                f"object {stored.name}",
                received=f"one that another process changed meanwhile ({error})",
                expected="the one that was listed",
                action="The same command goes on with what is there then.",
            ) from None


def _check_ours(found: Differences, here: Local, url: str) -> None:
    if found.foreign:
        raise _foreign(found.foreign[-1], here, url)


def _check_gone(bucket: Bucket, found: Differences, here: Local, there: Listing, url: str) -> None:
    """Raises InputError for a version to be removed that this directory did not publish."""
    for number in found.gone:
        stored = there.versions[number].files.get(versions.FILE_NAME)
        if stored is None:
            raise _foreign(number, here, url)
        try:
            document = versions.loads(bucket.read(stored), pathlib.Path(url, stored.name))
        except (InputError, RefusedError):
            raise _foreign(number, here, url) from None
        known = here.known[number]
        if known.cycle and (document["cycle"], document["at"]) != (known.cycle, known.at):
            raise _foreign(number, here, url)


def _foreign(number: int, here: Local, url: str) -> InputError:
    return InputError(
        f"version {number} of {url}",
        received=f"one that {here.directory} never published",
        expected="a place that this directory alone publishes to",
        action="Choose another config.publish_to, or remove the version by hand if nobody needs it.",
    )
