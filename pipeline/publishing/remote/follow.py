"""Brings a place in an object store to the versions of a serving directory, which is right."""

import os
import pathlib
import socket
from collections.abc import Callable

from pipeline.base.errors import InputError
from pipeline.publishing import versions
from pipeline.publishing.remote import stored as stored_lib
from pipeline.publishing.remote import upload
from pipeline.publishing.remote.bucket import Bucket, Elapsed, RefusedError
from pipeline.publishing.remote.lease import INTERVAL, Lease, held
from pipeline.publishing.remote.stored import Differences, Listing, Local, clear, remove


def follow(
    bucket: Bucket,
    directory: pathlib.Path,
    *,
    url: str,
    tell: Callable[[Differences], None] = lambda found: None,
    interval: float = INTERVAL,
    time: Elapsed | None = None,
) -> Differences:
    """Publishes what the place lacks and removes what it should not have; returns what that was.

    Every step may be made again: what a killed process left is found by looking, and there is no other record
    of it. Where nothing differs and nobody has the lease, one listing is all that is asked of the store.

    Args:
      url: the place, for messages.
      tell: called before anything is changed.
      interval: of the lease, in seconds.

    Raises:
      InputError: the place has versions that this directory never published; nothing is changed then.
      TryAgainError: another process writes there, or the store does not answer.
    """
    here = stored_lib.local(directory)
    found = stored_lib.differences(here, stored_lib.look(bucket))
    _check_ours(found, here, url)
    if found.none:
        return found
    holder = f"process {os.getpid()} of host {socket.gethostname()}"
    with held(bucket, holder=holder, interval=interval, time=time) as lease:
        # Before it is looked at again: from now on no older holder has anything to copy from.
        clear(lease, stored_lib.look(bucket).staged)
        there = stored_lib.look(bucket)
        found = stored_lib.differences(here, there)
        _check_ours(found, here, url)
        _check_gone(bucket, found, here, there, url)
        tell(found)
        _settle(bucket, lease, here, there, found)
    return found


def _settle(bucket: Bucket, lease: Lease, here: Local, there: Listing, found: Differences) -> None:
    """A version that was taken back goes first, even where there is no room for another one. It goes last
    only if nothing else would be left to serve.
    """
    for number in found.broken:
        remove(lease, there.versions[number])
    missing = list(found.missing)
    if missing and not found.right:
        upload.publish(bucket, lease, here.directory, missing.pop(0))
    for number in found.gone:
        remove(lease, there.versions[number])
    for number in missing:
        upload.publish(bucket, lease, here.directory, number)


def _check_ours(found: Differences, here: Local, url: str) -> None:
    if found.foreign:
        raise _foreign(found.foreign[-1], here, url)


def _check_gone(bucket: Bucket, found: Differences, here: Local, there: Listing, url: str) -> None:
    """What is removed is what this directory once published under that number."""
    for number in found.gone:
        stored = there.versions[number].files.get(versions.PUBLICATION_FILE_NAME)
        if stored is None:
            raise _foreign(number, here, url)
        try:
            document = versions.loads_publication(bucket.read(stored), pathlib.Path(url, stored.name))
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
