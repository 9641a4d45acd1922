"""How a version appears in a place: staged, copied, verified, and then a version in one step.

1. Its files go to `.staging/TOKEN/N/`, which TensorFlow Serving passes over. The upload may take minutes.
2. The store copies them to `N/`, which takes moments: from the first of them on TensorFlow Serving sees the
   number, and would try in vain to load it.
3. What lies in `N/` is compared with the local files.
4. `N/saved_model.pb`, which TensorFlow Serving cannot load a model without, is created by the lease's commit.
   It is the last object, behind our own marker publication.json, so that for both kinds of reader the version
   begins with the same request. Only who holds the lease can make it: see lease.py.
"""

import contextlib
import hashlib
import pathlib
from collections.abc import Mapping

import google_crc32c

from pipeline.base.errors import InputError, TryAgainError
from pipeline.publishing import versions
from pipeline.publishing.remote.bucket import Bucket, RefusedError, Stored, crc32c, encoded
from pipeline.publishing.remote.lease import Lease
from pipeline.publishing.remote.stored import GRAPH, STAGING, clear

READ_BACK = 1 << 20  # bytes: what is no larger is also read back and hashed
_PART = 1 << 20


def publish(bucket: Bucket, lease: Lease, directory: pathlib.Path, number: int) -> None:
    """Brings version `number` of a serving directory to the place, where no object of that number may be.

    Raises:
      InputError: its files are not those that were published, or there is no saved_model.pb among them.
      LostError, TryAgainError: it is not a version of the place; what is there of it is removed later.
    """
    document = versions.published(directory, number)
    folder, staging = versions.path_of(directory, number), f"{STAGING}{lease.token}/{number}"
    marker, graph = versions.dumps_publication(document), _graph(folder, document)
    sent = {
        name: _send(lease, folder / name, f"{staging}/{name}", said["sha256"])
        for name, said in document["files"].items()
        if name != GRAPH
    }
    sent[versions.PUBLICATION_FILE_NAME] = _same(
        _written(lease, f"{staging}/{versions.PUBLICATION_FILE_NAME}", marker), marker
    )
    for name, staged in sent.items():
        _copy(bucket, lease, staged, f"{number}/{name}")
    digests = {name: said["sha256"] for name, said in document["files"].items()}
    _verify(bucket, number, sent, {**digests, versions.PUBLICATION_FILE_NAME: _sha256(marker)})
    _same(lease.commit(f"{number}/{GRAPH}", graph), graph)
    clear(lease, [*sent.values()])


def _send(lease: Lease, path: pathlib.Path, name: str, sha256: str) -> Stored:
    """Uploads a file; what arrived has the checksum of the bytes whose SHA-256 was published."""
    checksum = _checksum(path, sha256)
    sent = _written(lease, name, path)
    if sent.crc32c != checksum:
        raise _other_bytes(name, sent.crc32c, checksum)
    return sent


def _written(lease: Lease, name: str, content: bytes | pathlib.Path) -> Stored:
    try:
        return lease.write(name, content)
    except RefusedError as error:
        raise _in_the_way(name, error) from None


def _copy(bucket: Bucket, lease: Lease, staged: Stored, target: str) -> None:
    try:
        lease.copy(staged, target)
    except RefusedError as error:
        # An answer may be lost on its way, and the library then asks again: the copy is there already.
        there = bucket.find(target)
        if not (there and there.holds(staged)):
            raise _in_the_way(target, error) from None


def _verify(bucket: Bucket, number: int, sent: Mapping[str, Stored], digests: Mapping[str, str]) -> None:
    """Names, sizes and CRC32C of all that lies there, as the store tells them; SHA-256 of what is small."""
    there = {stored.name.partition("/")[2]: stored for stored in bucket.list(f"{number}/")}
    for name in sorted({*sent, *there}):
        if name not in there or name not in sent or not there[name].holds(sent[name]):
            raise _other_bytes(f"{number}/{name}", there.get(name), str(sent.get(name)))
        if there[name].size <= READ_BACK:
            with contextlib.suppress(RefusedError):  # then the commit fails, too
                found = _sha256(bucket.read(there[name]))
                if found != digests[name]:
                    raise _other_bytes(f"{number}/{name}", found, digests[name])


def _graph(folder: pathlib.Path, document: Mapping) -> bytes:
    if GRAPH not in document["files"]:
        raise InputError(
            f"version {folder}",
            received=f"no {GRAPH}",
            expected="a SavedModel, which becomes a version of the store by that file",
            action="Publish another export; config.publish_to = '' leaves the store alone.",
        )
    content = (folder / GRAPH).read_bytes()
    _check(folder / GRAPH, _sha256(content), document["files"][GRAPH]["sha256"])
    return content


def _checksum(path: pathlib.Path, sha256: str) -> str:
    """CRC32C of a file as Cloud Storage tells it, read once; raises InputError for another SHA-256."""
    digest, checksum = hashlib.sha256(), 0
    with path.open("rb") as file:
        while part := file.read(_PART):
            digest.update(part)
            checksum = google_crc32c.extend(checksum, part)
    _check(path, digest.hexdigest(), sha256)
    return encoded(checksum)


def _check(path: pathlib.Path, found: str, sha256: str) -> None:
    if found != sha256:
        raise InputError(
            f"published file {path}",
            received=f"{found[:12]}…",
            expected=f"SHA-256 {sha256[:12]}…, as published",
            action="Restore the version from a copy, or publish another one above it (rollback does).",
        )


def _same(stored: Stored, content: bytes) -> Stored:
    if (stored.size, stored.crc32c) != (len(content), crc32c(content)):
        raise _other_bytes(stored.name, stored.crc32c, crc32c(content))
    return stored


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _in_the_way(name: str, error: RefusedError) -> TryAgainError:
    return TryAgainError(
        f"object {name}",
        received=f"one that another process changed meanwhile ({error})",
        expected="none, or the one that was put there",
        action="The same command goes on; what is half there is removed first.",
    )


def _other_bytes(name: str, found: object, expected: str) -> TryAgainError:
    return TryAgainError(
        f"object {name}",
        received=f"other bytes than were sent ({found})",
        expected=f"{expected}",
        action="It is no version yet. The same command sends it again.",
    )
