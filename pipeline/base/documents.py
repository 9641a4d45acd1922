"""JSON that carries a checksum of its content, so that damage is noticed: whole documents, and lines.

A document has the SHA-256 of everything else in it under `digest`. A line has a CRC32 under `crc32`: a file
of lines is appended to, and a kill may cut its last line short.
"""

import hashlib
import json
import os
import pathlib
import zlib
from collections.abc import Callable, Iterable, Mapping

from pipeline.base import files
from pipeline.base.errors import InputError

KEY = "digest"
CHECKSUM = "crc32"  # holds the CRC32 of the rest of the line

# Errors that mean that a document is not as it was written; the reader says what that implies.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)

# Checks the document and returns it; raises KeyError, TypeError or ValueError.
Checked = Callable[[dict], dict]


def digest(document: Mapping) -> str:
    """SHA-256, in hexadecimal, of the document's content without its digest; spaces and order do not
    matter.
    """
    said = {key: value for key, value in document.items() if key != KEY}
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=repr).encode()).hexdigest()


def with_digest(document: Mapping) -> dict:
    return {**document, KEY: digest(document)}


def check(document: Mapping) -> None:
    """Raises ValueError where the digest is absent or wrong."""
    if document.get(KEY) != digest(document):
        raise ValueError(f"digest {digest(document)[:12]} where the file says {str(document.get(KEY))[:12]}")


def dumps(document: Mapping, *, indent: int = 2) -> bytes:
    return (json.dumps(document, indent=indent, default=repr) + "\n").encode()


def loads(content: bytes, *, file_format: str = "", indent: int | None = None) -> dict:
    """The document of a file, with its digest; raises one of UNREADABLE where it is damaged.

    Args:
      file_format: the value of `format` in the document, where its reader knows only one.
      indent: the indent that it was written with. Then every byte is compared, also those that the digest
        does not cover, such as spaces.
    """
    document = json.loads(content)
    check(document)
    if indent is not None and content != (written := dumps(document, indent=indent)):
        raise ValueError(f"{len(content):,} bytes in place of {len(written):,}, or with other content")
    if file_format and document["format"] != file_format:
        raise ValueError(f"format {document['format']!r} in place of {file_format!r}")
    return document


def write(path: str | os.PathLike, document: Mapping) -> None:
    """Replaces the file in one step by the document with its digest."""
    files.write_bytes(path, dumps(with_digest(document)))


def read(path: str | os.PathLike, *, file_format: str = "", indent: int | None = None) -> dict:
    """The document in a file; raises as `loads` does, and FileNotFoundError."""
    return loads(files.read_bytes(path), file_format=file_format, indent=indent)


def append_line(path: pathlib.Path, document: Mapping) -> None:
    """Appends the line of a document, or raises OSError and leaves the file as it was."""
    with path.open("ab", buffering=0) as file:
        before, line = file.tell(), _line(document).encode()
        try:
            while line:
                line = line[file.write(line) :]
        except OSError as error:
            file.truncate(before)  # a part of a line would spoil the next line, once there is room
            error.filename = str(path)
            raise


def replace_lines(path: pathlib.Path, documents: Iterable[Mapping]) -> None:
    """Replaces the file by the lines of these documents, at once."""
    files.write_bytes(path, "".join(map(_line, documents)).encode())


def read_lines(path: pathlib.Path, *, checked: Checked, without: str) -> list[dict]:
    """The documents of all whole lines: a last line that a kill cut short is left out.

    Args:
      checked: checks a line's document and gives what is returned for it.
      without: for the message: what the run loses if the file is deleted.

    Raises:
      InputError: a line is damaged.
    """
    if not path.exists():
        return []
    try:
        lines = files.read_bytes(path).split(b"\n")[:-1]
    except files.NotOrdinaryError as error:
        raise damaged_lines(path, error.strerror, without=without) from None
    documents = [_document(path, number, line, checked, without) for number, line in enumerate(lines, 1)]
    checksums = [document.pop(CHECKSUM, None) for document in documents]
    for number, (document, checksum) in enumerate(zip(documents, checksums, strict=True), 1):
        if checksum != _checksum(document):
            received = f"a line {number:,} with checksum {checksum} in place of {_checksum(document)}"
            raise damaged_lines(path, received, without=without)
    return documents


def damaged_lines(path: pathlib.Path, received: str, *, without: str) -> InputError:
    """The error for lines that are not as the run wrote them. `without`: what the run loses without the
    file.
    """
    expected = "the lines that the training run wrote there"
    return not_as_written(path, received, expected=expected, then=f"goes on, without {without}")


def not_as_written(
    path: pathlib.Path,
    received: str,
    *,
    expected: str = "what the training run wrote there",
    then: str = "goes on from the last checkpoint",
) -> InputError:
    """Returns the error for a file that is not as the training run wrote it.

    Args:
      then: what the same command does after the file is deleted.
    """
    action = f"Restore the file from a copy; or delete it: the same pipeline.train command {then}."
    return InputError(f"file {path}", received=received, expected=expected, action=action)


def not_as_needed(path: pathlib.Path, received: str) -> InputError:
    """Returns the error for a damaged file of a training run that cannot go on without it."""
    return InputError(
        f"file {path}",
        received=received,
        expected="what the training run wrote there",
        action="Restore the file from a copy, or train in an empty --workdir.",
    )


def _document(path: pathlib.Path, number: int, line: bytes, checked: Checked, without: str) -> dict:
    try:
        return checked(json.loads(line))
    except UNREADABLE as error:
        raise damaged_lines(path, f"a line {number:,} that is damaged ({error})", without=without) from None


def _line(document: Mapping) -> str:
    document = files.finite(document)
    return json.dumps({**document, CHECKSUM: _checksum(document)}) + "\n"


def _checksum(document: Mapping) -> int:
    return zlib.crc32(json.dumps(document).encode())
