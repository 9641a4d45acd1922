"""Which versions of a model are published: all that a reader of the serving directory needs. Takes no lock.

A version appears whole and goes whole, under a reader too. So a reader that finds a file missing asks again
for the newest version; `DIRECTORY/<integer>/` that still is there after that is damaged, not half published.
"""

import pathlib
import re

from pipeline.data.errors import InputError
from pipeline.release.publish import publication

_NUMBER = re.compile("[0-9]+")
LARGEST = 2**63 - 1  # TensorFlow Serving reads versions as int64, and passes over what does not fit


def versions(directory: pathlib.Path) -> list[int]:
    """The published versions, ascending: those whose files all are there with their published sizes.

    One that is damaged is left out; TensorFlow Serving goes by the number alone, and would take it. `check`
    reads the bytes too.
    """
    while True:
        before = numbers(directory)
        whole = [number for number in before if _is_whole(directory, number)]
        # While they were looked at one by one, all of them may have given way to newer ones.
        if numbers(directory) == before:
            return whole


def newest(directory: pathlib.Path) -> int | None:
    """The highest published version; None where there is none."""
    return max(versions(directory), default=None)


def path_of(directory: pathlib.Path, version: int) -> pathlib.Path:
    """Where a version lies, if it is published."""
    return directory / str(version)


def published(directory: pathlib.Path, version: int) -> dict:
    """What the version's publication.json says.

    `version`, `cycle`, `at` (ISO 8601), `files` (path → `bytes` and `sha256`), `digest` (of all of this), and
    `rolled_back` (`from`, `to`, `reason`) where old bytes were published again.

    Raises:
      InputError: there is none, it was altered, or it is that of another version.
    """
    path = path_of(directory, version)
    document = publication.read(path)
    if document["version"] != version:
        raise InputError(
            f"version {path}",
            received=f"the publication of version {document['version']}",
            expected=f"that of version {version}: a version keeps its number",
            action="Remove the copy; rollback publishes old bytes again, under a new number.",
        )
    return document


def check(directory: pathlib.Path, version: int) -> dict:
    """As `published`, after reading every file; raises InputError where one has other bytes than then."""
    document = published(directory, version)
    publication.check_bytes(path_of(directory, version), document)
    return document


def is_sound(directory: pathlib.Path, version: int) -> bool:
    """Whether every byte of the version is as it was published."""
    try:
        check(directory, version)
    except (InputError, OSError):
        return False
    return True


def numbers(directory: pathlib.Path) -> list[int]:
    """Every number that TensorFlow Serving finds there, ascending, whatever lies under it."""
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    found = {int(name) for name in names if _NUMBER.fullmatch(name)}
    return sorted(number for number in found if number <= LARGEST)


def _is_whole(directory: pathlib.Path, version: int) -> bool:
    try:
        publication.check_sizes(path_of(directory, version), published(directory, version))
    except (InputError, OSError):
        return False
    return True
