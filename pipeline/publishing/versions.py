"""Which versions of a model are published: all that a reader of the serving directory needs. Takes no lock.

A version appears whole and goes whole, under a reader too. So a reader that finds a file missing asks again
for the newest version; `DIRECTORY/<integer>/` that still is there after that is damaged, not half published.
"""

import json
import pathlib
import re
from collections.abc import Mapping

from pipeline.base import documents, files
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import check_inside, sha256

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
    document = read_publication(path)
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
    check_bytes(path_of(directory, version), document)
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
        check_sizes(path_of(directory, version), published(directory, version))
    except (InputError, OSError):
        return False
    return True


# --- `publication.json`, which stands in every published version and lists its files with size and SHA-256.


FORMAT = "penstock.publication/1"
PUBLICATION_FILE_NAME = "publication.json"


def describe_publication(
    directory: pathlib.Path, *, version: int, cycle: str, at: str, rolled_back: Mapping | None = None
) -> dict:
    """The document of the files that lie in `directory` now, those of its folders included.

    Args:
      at: when it is published, ISO 8601.
      rolled_back: `from` and `to`, the versions, and the `reason`, where old bytes are published again.
    """
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    document = {
        "format": FORMAT,
        "version": version,
        "cycle": cycle,
        "at": at,
        **({"rolled_back": dict(rolled_back)} if rolled_back else {}),
        "files": {
            path.relative_to(directory).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
            for path in files
        },
    }
    return documents.with_digest(document)


def dumps_publication(document: Mapping) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def read_publication(directory: pathlib.Path) -> dict:
    """What the version's document says; raises InputError where it is absent or was altered."""
    path = directory / PUBLICATION_FILE_NAME
    try:
        return loads_publication(files.read_bytes(path), path)
    except OSError as error:
        raise _damaged(path, error.strerror or str(error), "what was published") from None


def loads_publication(content: bytes, path: pathlib.PurePath) -> dict:
    """The document of such a file; `path` is where it was read. Raises InputError where it was altered."""
    try:
        document = json.loads(content)
        documents.check_digest(document)
        if content != dumps_publication(document):  # a space, for one, is in no digest
            raise ValueError(
                f"{len(content):,} bytes in place of {len(dumps_publication(document)):,}, or others"
            )
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r}")
        _check_types(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, f"other content than was published ({error!r})", "what was published") from None
    check_inside(path, path.parent, document["files"])
    return document


def check_sizes(directory: pathlib.Path, document: Mapping) -> None:
    """Raises InputError where a file is missing or has another size than was published."""
    for name, said in document["files"].items():
        path = directory / name
        found = path.stat().st_size if path.is_file() else None
        if found != said["bytes"]:
            received = "no such file" if found is None else f"{found:,} bytes"
            raise _damaged(path, received, f"{said['bytes']:,} bytes, as published")


def check_bytes(directory: pathlib.Path, document: Mapping) -> None:
    """Reads every file; raises InputError where one is missing or has other bytes than were published."""
    check_sizes(directory, document)
    for name, said in document["files"].items():
        found = sha256(directory / name)
        if found != said["sha256"]:
            raise _damaged(
                directory / name, f"{found[:12]}…", f"SHA-256 {said['sha256'][:12]}…, as published"
            )


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
