"""Receipts: JSON files that are written once, whole, and carry their own digest."""

import json
import os
import pathlib
from collections.abc import Mapping

from pipeline.data import atomic_files, ordinary_files, self_digest
from pipeline.data.errors import InputError

_OF = "receipt_of"  # a copy at another place says of itself that it is one


def write(path: pathlib.Path, document: Mapping[str, object]) -> dict:
    """Writes a receipt, whole and on the disk; returns what it says, as `read` gives it.

    One that is there already stays as it is, and is returned: what was done once is not told otherwise later.
    """
    if (there := read(path)) is not None:
        return there
    plain = json.loads(json.dumps(document, default=str))
    atomic_files.write_json(path, self_digest.with_digest({**plain, _OF: _of(path)}))
    fsync_folder(path.parent)
    return plain


def read(path: pathlib.Path) -> dict | None:
    """What a receipt says; None where there is none.

    Raises:
      InputError: it is damaged.
    """
    try:
        document = json.loads(ordinary_files.read_bytes(path))
        self_digest.check(document)
        if document.pop(_OF, _of(path)) != _of(path):
            raise ValueError("it is the receipt of something else")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(
            f"receipt {path}",
            received=f"other content than was written ({error})",
            expected="what pipeline.retrain wrote there",
            action="Restore the file from a copy.",
        ) from None
    del document[self_digest.KEY]
    return document


def _of(path: pathlib.Path) -> str:
    """Which receipt it is: the folder's name and its own. A root may be moved."""
    return f"{path.parent.name}/{path.name}"


def fsync_folder(folder: pathlib.Path) -> None:
    """Names in a folder survive a power cut only after this."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
