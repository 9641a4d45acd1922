"""Folders of images, `<root>/<class>/<file>`: one row a file, its class the folder's name.

Only paths are read here; pixels are read where the record is written, so that they never travel through
the shuffle.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import pyarrow as pa

from beam_jobs.rejected import Rejection
from beam_jobs.sources import files
from beam_jobs.sources.source import Input, Piece, RawRows

IMAGE_COLUMN = "image"
LABEL_COLUMN = "label"
_FILES_IN_PIECE = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageFolders:
    """Columns `image` (the file's path) and `label` (the folder's name); hidden files are left out.

    A row's id is its path below the root, `class/file`: the same file gets the same split wherever the
    folder lies.
    """

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        inputs = list(inputs)
        listed = [(given, files.list_files(given, within_directory="**")) for given in inputs]
        for _, found in listed:
            files.check_not_empty(found)
        root = files.common_root(f"{_directory(given)}" for given in inputs)
        return [piece for given, found in listed for piece in _pieces(given, found, root)]

    def read(self, piece: Piece) -> Iterator[RawRows]:
        parts = [path.removeprefix(piece.input_root).split("/") for path in piece.paths]
        rows = [(path, *names) for path, names in zip(piece.paths, parts, strict=True) if len(names) == 2]
        paths, labels, names = zip(*rows, strict=True) if rows else ((), (), ())
        columns = {IMAGE_COLUMN: pa.array(paths, pa.string()), LABEL_COLUMN: pa.array(labels, pa.string())}
        yield RawRows(
            columns=pa.record_batch(columns),
            sources=[path.removeprefix(piece.root) for path in paths],
            ids=pa.array([f"{label}/{name}" for label, name in zip(labels, names, strict=True)], pa.string()),
            rejected=tuple(
                _misplaced(path.removeprefix(piece.root))
                for path, names in zip(piece.paths, parts, strict=True)
                if len(names) != 2
            ),
        )


def _pieces(given: Input, found: list[files.InputFile], root: str) -> Iterator[Piece]:
    for start in range(0, len(found), _FILES_IN_PIECE):
        batch = found[start : start + _FILES_IN_PIECE]
        yield Piece(
            paths=tuple(file.path for file in batch),
            root=root,
            bytes=sum(file.bytes for file in batch),
            split=given.split,
            input_root=_directory(given),
        )


def _directory(given: Input) -> str:
    return f"{given.location.rstrip('/')}/"


def _misplaced(source: str) -> Rejection:
    return Rejection(source=source, row=None, column=None, reason="not at <input>/<class>/<file>", raw="")
