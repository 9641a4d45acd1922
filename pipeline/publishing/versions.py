"""Reads which versions of a model are published. Takes no lock.

`publication.json` in every version lists its files with size and SHA-256. A version appears whole and
disappears whole, also during a read. So a reader that misses a file asks again for the newest version. If
`DIRECTORY/<integer>/` is still there then, it is damaged, not half published.
"""

import pathlib
import re
from collections.abc import Mapping

from pipeline.base import directories, documents, files
from pipeline.base.directories import ChangedError
from pipeline.base.errors import InputError

FORMAT = "penstock.publication/1"
FILE_NAME = "publication.json"
LARGEST = 2**63 - 1  # TensorFlow Serving reads versions as int64, and skips larger numbers
_NUMBER = re.compile("[0-9]+")
_INDENT = 2


def versions(directory: pathlib.Path) -> list[int]:
    """Returns the published versions, ascending: those whose files all have their published sizes.

    A damaged one is left out; TensorFlow Serving looks only at the number, and would load it. `check` reads
    the bytes too.
    """
    while True:
        before = numbers(directory)
        whole = [number for number in before if _is_whole(directory, number)]
        # In the meantime, newer versions may have replaced all of them.
        if numbers(directory) == before:
            return whole


def newest(directory: pathlib.Path) -> int | None:
    """Returns the highest published version; None where there is none."""
    return max(versions(directory), default=None)


def path_of(directory: pathlib.Path, version: int) -> pathlib.Path:
    return directory / str(version)


def numbers(directory: pathlib.Path) -> list[int]:
    """Returns every number that TensorFlow Serving finds there, ascending, whatever the folder holds."""
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    found = {int(name) for name in names if _NUMBER.fullmatch(name)}
    return sorted(number for number in found if number <= LARGEST)


def published(directory: pathlib.Path, version: int) -> dict:
    """Reads the version's publication.json.

    `version`, `cycle`, `at` (ISO 8601), `files` (path → `bytes` and `sha256`), `digest` (of all of this), and
    `rolled_back` (`from`, `to`, `reason`) where old bytes were published again.

    Raises:
      InputError: it is missing, altered, or belongs to another version.
    """
    path = path_of(directory, version)
    document = read(path)
    if document["version"] != version:
        raise InputError(
            f"version {path}",
            received=f"the publication of version {document['version']}",
            expected=f"that of version {version}: a version keeps its number",
            action="Remove the copy; rollback publishes old bytes again, under a new number.",
        )
    return document


def check(directory: pathlib.Path, version: int) -> dict:
    """Reads publication.json and every file; raises InputError where one has other bytes."""
    document = published(directory, version)
    check_files(path_of(directory, version), document)
    return document


def is_sound(directory: pathlib.Path, version: int) -> bool:
    """Returns whether every byte of the version is as published."""
    try:
        check(directory, version)
    except (InputError, OSError):
        return False
    return True


def describe(
    folder: pathlib.Path, *, version: int, cycle: str, at: str, rolled_back: Mapping | None = None
) -> dict:
    """Returns the publication.json of all files below `folder`.

    Args:
      at: the time of publication, ISO 8601.
      rolled_back: `from` and `to`, the versions, and the `reason`, where old bytes are published again.
    """
    document = {
        "format": FORMAT,
        "version": version,
        "cycle": cycle,
        "at": at,
        **({"rolled_back": dict(rolled_back)} if rolled_back else {}),
        "files": directories.listed(folder),
    }
    return documents.with_digest(document)


def dumps(document: Mapping) -> bytes:
    """Returns the content of publication.json."""
    return documents.dumps(document, indent=_INDENT)


def read(folder: pathlib.Path) -> dict:
    """Reads a version's publication.json; raises InputError where it is missing or altered."""
    path = folder / FILE_NAME
    try:
        return loads(files.read_bytes(path), path)
    except OSError as error:
        raise damaged(path, error.strerror or str(error), "what was published") from None


def loads(content: bytes, path: pathlib.PurePath) -> dict:
    """Parses a publication.json that was read from `path`; raises InputError where it was altered."""
    try:
        document = documents.loads(content, file_format=FORMAT, indent=_INDENT)
        _check_types(document)
    except documents.UNREADABLE as error:
        raise damaged(path, f"other content than was published ({error!r})", "what was published") from None
    directories.check_inside(path, path.parent, document["files"])
    return document


def check_files(folder: pathlib.Path, document: Mapping, *, sizes_alone: bool = False) -> None:
    """Raises InputError where a file is missing, or has another size or other bytes than were published."""
    try:
        directories.check(folder, document["files"], sizes_alone=sizes_alone)
    except ChangedError as error:
        raise damaged(folder / error.name, error.received, f"{error.expected}, as published") from None


def _is_whole(directory: pathlib.Path, version: int) -> bool:
    try:
        check_files(path_of(directory, version), published(directory, version), sizes_alone=True)
    except (InputError, OSError):
        return False
    return True


def _check_types(document: Mapping) -> None:
    said = (document["version"], document["cycle"], document["at"])
    if [type(value) for value in said] != [int, str, str]:
        raise TypeError(f"version, cycle, at: {said!r:.80}")
    for name, file in document["files"].items():
        if type(file["bytes"]) is not int or type(file["sha256"]) is not str:
            raise TypeError(f"{name}: {file!r:.80}")


def damaged(path: pathlib.PurePath, received: str, expected: str) -> InputError:
    """Returns the error for a file that is not as it was published."""
    return InputError(
        f"published file {path}",
        received=received,
        expected=expected,
        action="Restore the version from a copy, or publish another one above it (rollback does).",
    )
