"""Lists the versions of a place, and compares them with the serving directory.

`N/saved_model.pb` makes `N/` a version: without it TensorFlow Serving can load nothing there. It appears last
and is removed first. So a number without it is the remains of an upload or a removal.
"""

import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence

from pipeline.publishing import journal as journal_lib
from pipeline.publishing import versions
from pipeline.publishing.remote import marker
from pipeline.publishing.remote.bucket import Bucket, Stored, crc32c

GRAPH = "saved_model.pb"
CONTENT = ".content/"  # folder of uploads, each named by its SHA-256
_VERSION = re.compile(r"(0|[1-9][0-9]*)/(.+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredVersion:
    """A version in the store: its objects, by their path within the version."""

    number: int
    files: Mapping[str, Stored]

    @property
    def is_loadable(self) -> bool:
        return GRAPH in self.files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listing:
    """All objects of a place at one moment."""

    versions: Mapping[int, StoredVersion]
    content: Sequence[Stored]  # uploaded objects, which will be copied to versions
    is_claimed: bool  # whether a process writes there, or was killed while it did

    @property
    def served(self) -> int | None:
        """The highest number that can be loaded; None where there is none."""
        return max((number for number, found in self.versions.items() if found.is_loadable), default=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Local:
    """A serving directory, with the publication.json of each whole version."""

    directory: pathlib.Path
    published: Mapping[int, Mapping]
    numbers: Sequence[int]  # numbers of all versions, damaged ones too
    known: Mapping[int, journal_lib.Known]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Differences:
    """The differences between a place and a serving directory.

    Attributes:
      missing: versions to publish, the newest first.
      broken: numbers that cannot be loaded or lack bytes; they are removed first.
      gone: versions that were taken back or collected, the lowest first; they are removed.
      right: versions that are the same in both.
      foreign: versions that this directory never published.
      unfinished: whether a process writes there, or was killed while it did.
    """

    missing: Sequence[int]
    broken: Sequence[int]
    gone: Sequence[int]
    right: Sequence[int]
    foreign: Sequence[int]
    unfinished: bool

    @property
    def removed(self) -> Sequence[int]:
        """Every number to remove; some may be published again."""
        return sorted([*self.broken, *self.gone])

    @property
    def none(self) -> bool:
        return not (self.missing or self.broken or self.gone or self.foreign or self.unfinished)


def look(bucket: Bucket) -> Listing:
    """Lists the place once."""
    files: dict[int, dict[str, Stored]] = {}
    content, is_claimed = [], False
    for stored in bucket.list():
        if found := _VERSION.fullmatch(stored.name):
            files.setdefault(int(found[1]), {})[found[2]] = stored
        elif stored.name.startswith(CONTENT):
            content.append(stored)
        elif stored.name == marker.NAME:
            is_claimed = True
    return Listing(
        versions={number: StoredVersion(number=number, files=each) for number, each in files.items()},
        content=content,
        is_claimed=is_claimed,
    )


def local(directory: pathlib.Path) -> Local:
    """Reads the serving directory; raises InputError where the journal was altered."""
    there = versions.versions(directory)
    return Local(
        directory=directory,
        published={number: versions.published(directory, number) for number in there},
        numbers=versions.numbers(directory),
        known=journal_lib.load(directory).known,
    )


def differences(here: Local, there: Listing) -> Differences:
    """Compares names, sizes and the checksum of publication.json, which has the SHA-256 of all files."""
    right, broken, gone, foreign = [], [], [], []
    for number, version in sorted(there.versions.items()):
        if not version.is_loadable:
            broken.append(number)
        elif number in here.published and _is_same_publication(here, version):
            (right if _is_whole(here.published[number], version) else broken).append(number)
        elif number in here.published or number not in here.known:
            foreign.append(number)
        elif number in here.numbers:
            right.append(number)  # damaged here, but perhaps not there
        else:
            gone.append(number)
    missing = sorted({*here.published} - {*right} - {*foreign}, reverse=True)
    return Differences(
        missing=missing,
        broken=broken,
        gone=gone,
        right=right,
        foreign=foreign,
        unfinished=bool(there.content) or there.is_claimed,
    )


def _is_same_publication(here: Local, version: StoredVersion) -> bool:
    content = versions.dumps(here.published[version.number])
    found = version.files.get(versions.FILE_NAME)
    return found is not None and (found.size, found.crc32c) == (len(content), crc32c(content))


def _is_whole(document: Mapping, version: StoredVersion) -> bool:
    sizes = {name: stored.size for name, stored in version.files.items()}
    return all(sizes.get(name) == said["bytes"] for name, said in document["files"].items())
