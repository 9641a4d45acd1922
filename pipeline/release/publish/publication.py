"""`publication.json`, which stands in every published version and lists its files with size and SHA-256."""

import json
import pathlib
from collections.abc import Mapping

from pipeline.data import ordinary_files, self_digest
from pipeline.data.dataset.manifest import check_inside, sha256
from pipeline.data.errors import InputError

FORMAT = "penstock.publication/1"
FILE_NAME = "publication.json"


def described(
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
    return self_digest.with_digest(document)


def dumps(document: Mapping) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def read(directory: pathlib.Path) -> dict:
    """What the version's document says; raises InputError where it is absent or was altered."""
    path = directory / FILE_NAME
    try:
        return loads(ordinary_files.read_bytes(path), path)
    except OSError as error:
        raise _damaged(path, error.strerror or str(error), "what was published") from None


def loads(content: bytes, path: pathlib.PurePath) -> dict:
    """The document of such a file; `path` is where it was read. Raises InputError where it was altered."""
    try:
        document = json.loads(content)
        self_digest.check(document)
        if content != dumps(document):  # a space, for one, is in no digest
            raise ValueError(f"{len(content):,} bytes in place of {len(dumps(document)):,}, or others")
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
