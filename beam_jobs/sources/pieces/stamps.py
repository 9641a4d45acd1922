"""Notices that an input changes while it is read: some of its rows would be of before, others of after."""

import os
from collections.abc import Iterable, Mapping, Sequence

from beam_jobs.sources.pieces import files
from beam_jobs.sources.pieces.source import Piece
from pipeline.data.errors import InputError


def check_unchanged(pieces: Sequence[Piece]) -> None:
    """Raises InputError where a file of `pieces` is no longer as it was when it was listed."""
    listed = {path: stamp for piece in pieces for path, stamp in zip(piece.paths, piece.stamps, strict=False)}
    found = _found(listed)
    for path, stamp in listed.items():
        if found.get(path) != stamp:
            raise InputError(
                f"input {path}",
                received="another size or time of change than before it was read"
                if path in found
                else "no such file any more",
                expected="files that stay as they are while they are read",
                action="Nothing was published. Run again when nothing writes there, or copy the files first.",
            )


def _found(paths: Iterable[str]) -> Mapping[str, int]:
    """The stamps that the files have now; those that are gone have none."""
    found = {}
    folders: set[str] = set()
    for path in paths:
        if "://" in path:  # a question for each file takes too long there
            folders.add(files.directory_of(path))
            continue
        try:
            status = os.stat(path)  # noqa: PTH116 - once a file, of which there may be millions
        except FileNotFoundError:
            continue
        found[path] = files.stamp(status.st_size, status.st_mtime)
    for folder in folders:
        found |= {path: match.stamp for path, match in files.match_inside(folder).items()}
    return found
