"""Writes files whole or not at all."""

import json
import os
import pathlib
from collections.abc import Mapping


def write_bytes(path: str | os.PathLike, data: bytes) -> None:
    """Replaces `path` in one step: a reader sees the old or the new content, even if the run is killed."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # a pipe would be waited for, a link be followed
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # of a full disk
            error.filename = str(path)
        raise


def write_json(path: str | os.PathLike, document: Mapping) -> None:
    """Replaces `path` in one step with the document."""
    # repr: a config may hold what JSON cannot, such as a LambdaCallback's function.
    write_bytes(path, (json.dumps(document, indent=2, default=repr) + "\n").encode())


def synchronise(path: str | os.PathLike) -> None:
    """Returns when the file, or the names in the directory, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
