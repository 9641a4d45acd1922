"""Which versions of a model are published: all that a reader of the serving directory needs. Takes no lock.

`publication.json` stands in every version and lists its files with size and SHA-256. A version appears whole
and goes whole, under a reader too. So a reader that finds a file missing asks again for the newest version;
`DIRECTORY/<integer>/` that still is there after that is damaged, not half published.
"""

import pathlib
import re
from collections.abc import Mapping

from pipeline.base import directories, documents, files
from pipeline.base.directories import ChangedError
from pipeline.base.errors import InputError

FORMAT = "penstock.publication/1"
FILE_NAME = "publication.json"
LARGEST = 2**63 - 1  # TensorFlow Serving reads versions as int64, and passes over what does not fit
_NUMBER = re.compile("[0-9]+")
_INDENT = 2


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


def numbers(directory: pathlib.Path) -> list[int]:
    """Every number that TensorFlow Serving finds there, ascending, whatever lies under it."""
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    found = {int(name) for name in names if _NUMBER.fullmatch(name)}
    return sorted(number for number in found if number <= LARGEST)


def published(directory: pathlib.Path, version: int) -> dict:
    """What the version's publication.json says.

    `version`, `cycle`, `at` (ISO 8601), `files` (path → `bytes` and `sha256`), `digest` (of all of this), and
    `rolled_back` (`from`, `to`, `reason`) where old bytes were published again.

    Raises:
      InputError: there is none, it was altered, or it is that of another version.
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
    """As `published`, after reading every file; raises InputError where one has other bytes than then."""
    document = published(directory, version)
    check_files(path_of(directory, version), document)
    return document


def is_sound(directory: pathlib.Path, version: int) -> bool:
    """Whether every byte of the version is as it was published."""
    try:
        check(directory, version)
    except (InputError, OSError):
        return False
    return True


def describe(
    folder: pathlib.Path, *, version: int, cycle: str, at: str, rolled_back: Mapping | None = None
) -> dict:
    """The publication.json of the files that lie in `folder` now, those of its folders included.

    Args:
      at: when it is published, ISO 8601.
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
    """The content of publication.json."""
    return documents.dumps(document, indent=_INDENT)


def read(folder: pathlib.Path) -> dict:
    """What a version says of itself; raises InputError where that is absent or was altered."""
    path = folder / FILE_NAME
    try:
        return loads(files.read_bytes(path), path)
    except OSError as error:
        raise _damaged(path, error.strerror or str(error), "what was published") from None


def loads(content: bytes, path: pathlib.PurePath) -> dict:
    """The document of such a file; `path` is where it was read. Raises InputError where it was altered."""
    try:
        document = documents.loads(content, file_format=FORMAT, indent=_INDENT)
        _check_types(document)
    except documents.UNREADABLE as error:
        raise _damaged(path, f"other content than was published ({error!r})", "what was published") from None
    directories.check_inside(path, path.parent, document["files"])
    return document


def check_files(folder: pathlib.Path, document: Mapping, *, sizes_alone: bool = False) -> None:
    """Raises InputError where a file is missing, or has another size or other bytes than were published."""
    try:
        directories.check(folder, document["files"], sizes_alone=sizes_alone)
    except ChangedError as error:
        raise _damaged(folder / error.name, error.received, f"{error.expected}, as published") from None


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


def _damaged(path: pathlib.PurePath, received: str, expected: str) -> InputError:
    return InputError(
        f"published file {path}",
        received=received,
        expected=expected,
        action="Restore the version from a copy, or publish another one above it (rollback does).",
    )
