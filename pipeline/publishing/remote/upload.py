"""Publishes a version to a place: uploads contents, copies and verifies them, then makes the version at once.

1. The contents of its files are uploaded to `.content/SHA256`, which TensorFlow Serving ignores. This may
   take minutes. Names are hashes of the bytes, so two uploads of the same content do no harm, and what a
   killed upload has left is used.
2. The store copies them to `N/`, which takes moments: from then on TensorFlow Serving sees the number, and
   would try in vain to load it.
3. The objects in `N/` are compared with the local files.
4. The marker's commit creates `N/saved_model.pb`, without which TensorFlow Serving cannot load a model. It is
   the last object, after our publication.json, so that for all readers the version begins with the same
   request. Only the last claimant of the place can create it: see marker.py.
"""

import contextlib
import hashlib
import pathlib
from collections.abc import Mapping

import google_crc32c

from pipeline.base.errors import InputError, TryAgainError
from pipeline.publishing import versions
from pipeline.publishing.remote.bucket import ABSENT, Bucket, RefusedError, Stored, crc32c, encoded
from pipeline.publishing.remote.marker import Marker
from pipeline.publishing.remote.stored import CONTENT, GRAPH

READ_BACK = 1 << 20  # bytes; objects up to this size are also read back and hashed
_PART = 1 << 20


def publish(bucket: Bucket, marker: Marker, directory: pathlib.Path, number: int) -> None:
    """Publishes version `number` of a serving directory to the place, which may not hold an object of that
    version yet.

    Raises:
      InputError: its files are not those that were published, or there is no saved_model.pb among them.
      LostError, TryAgainError: the version was not made; its objects are removed later.
    """
    document = versions.published(directory, number)
    folder, described = versions.path_of(directory, number), versions.dumps(document)
    graph = _graph(folder, document)
    digests = {name: said["sha256"] for name, said in document["files"].items() if name != GRAPH}
    sent = {name: _send(bucket, folder / name, sha256) for name, sha256 in digests.items()}
    digests[versions.FILE_NAME] = _sha256(described)
    sent[versions.FILE_NAME] = _send(bucket, described, digests[versions.FILE_NAME])
    marker.check()  # an old writer would leave a number that nobody can load
    for name, content in sent.items():
        _copy(bucket, content, f"{number}/{name}")
    _verify(bucket, number, sent, digests)
    committed = marker.commit(f"{number}/{GRAPH}", graph)
    if (committed.size, committed.crc32c) != (len(graph), crc32c(graph)):
        raise _other_bytes(committed.name, committed.crc32c, crc32c(graph))


def _send(bucket: Bucket, content: bytes | pathlib.Path, sha256: str) -> Stored:
    """Returns the object of a content, after uploading it if need be, and checks its checksum."""
    checksum = crc32c(content) if isinstance(content, bytes) else _checksum(content, sha256)
    name = f"{CONTENT}{sha256}"
    sent = bucket.find(name) or _written(bucket, name, content)
    if sent.crc32c != checksum:
        bucket.delete(sent)
        raise _other_bytes(name, sent.crc32c, checksum)
    return sent


def _written(bucket: Bucket, name: str, content: bytes | pathlib.Path) -> Stored:
    try:
        return bucket.write(name, content, generation=ABSENT)
    except RefusedError as error:
        if found := bucket.find(name):
            return found  # another writer was faster, or an answer was lost and the library retried
        raise _in_the_way(name, error) from None


def _copy(bucket: Bucket, source: Stored, target: str) -> None:
    try:
        bucket.copy(source, target)
    except RefusedError as error:
        there = bucket.find(target)
        if not (there and there.holds(source)):
            raise _in_the_way(target, error) from None


def _verify(bucket: Bucket, number: int, sent: Mapping[str, Stored], digests: Mapping[str, str]) -> None:
    """Checks names, sizes and CRC32C of all objects, from the store, and the SHA-256 of small ones."""
    there = {stored.name.partition("/")[2]: stored for stored in bucket.list(f"{number}/")}
    for name in sorted({*sent, *there}):
        if name not in there or name not in sent or not there[name].holds(sent[name]):
            raise _other_bytes(f"{number}/{name}", there.get(name), str(sent.get(name)))
        if there[name].size <= READ_BACK:
            with contextlib.suppress(RefusedError):  # then the commit fails too
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
    """Returns the CRC32C of a file, which is read once; raises InputError if its SHA-256 is another."""
    digest, checksum = hashlib.sha256(), 0
    with path.open("rb") as file:
        while part := file.read(_PART):
            digest.update(part)
            checksum = google_crc32c.extend(checksum, part)
    _check(path, digest.hexdigest(), sha256)
    return encoded(checksum)


def _check(path: pathlib.Path, found: str, sha256: str) -> None:
    if found != sha256:
        raise versions.damaged(path, f"{found[:12]}…", f"SHA-256 {sha256[:12]}…, as published")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _in_the_way(name: str, error: RefusedError) -> TryAgainError:
    return TryAgainError(
        f"object {name}",
        received=f"one that another process changed meanwhile ({error})",
        expected="none, or the one that was put there",
        action="The same command goes on; what is half done is removed first.",
    )


def _other_bytes(name: str, found: object, expected: str) -> TryAgainError:
    return TryAgainError(
        f"object {name}",
        received=f"other bytes than were sent ({found})",
        expected=f"{expected}",
        action="It is no version yet. The same command sends it again.",
    )
