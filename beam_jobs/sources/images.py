"""Folders of images, `<root>/<class>/<file>`: a row for each file, whose class is the folder's name.

Only paths are read here. Pixels are read where the record is written, so they never go through the shuffle.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from beam_jobs.sources import files
from beam_jobs.sources.source import Input, InputSplit, RawRows, Rejection, Source

IMAGE_COLUMN = "image"
LABEL_COLUMN = "label"
_SURROGATE = re.compile("[\ud800-\udfff]")  # what Python turns bytes into that are not UTF-8


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageFolders:
    """Columns `image` (the file's path) and `label` (the folder's name); hidden files are left out.

    A row's id is its path below the root, `class/file`: the same file gets the same split wherever the folder
    lies. Without `labelled`, files may lie anywhere, and an input may be one file.
    """

    files_in_split: int = 1000
    labelled: bool = True

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        inputs = list(inputs)
        listed = [(given, files.list_files(given, deep=True)) for given in inputs]
        for _, found in listed:
            files.check_not_empty(found)
        root = files.common_root(_directory(given, found) for given, found in listed)
        return [
            input_split for given, found in listed for input_split in self._input_splits(given, found, root)
        ]

    def _input_splits(
        self, given: Input, found: Sequence[files.InputFile], root: str
    ) -> Iterator[InputSplit]:
        for start in range(0, len(found), self.files_in_split):
            batch = found[start : start + self.files_in_split]
            yield InputSplit(
                paths=tuple(file.path for file in batch),
                stamps=tuple(file.stamp for file in batch),
                root=root,
                bytes=sum(file.bytes for file in batch),
                split=given.split,
                input_root=_directory(given, found),
            )

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        inside = {path: path.removeprefix(input_split.input_root).split("/") for path in input_split.paths}
        wrong = {path: self._wrong(names) for path, names in inside.items()}
        rows = {path: names for path, names in inside.items() if not wrong[path]}
        columns = {
            IMAGE_COLUMN: pa.array(rows, pa.string()),
            LABEL_COLUMN: pa.array(
                [names[-2] if len(names) > 1 else None for names in rows.values()], pa.string()
            ),
        }
        yield RawRows(
            columns=pa.record_batch(columns),
            sources=[path.removeprefix(input_split.root) for path in rows],
            files=np.flatnonzero([not reason for reason in wrong.values()]),
            ids=pa.array(map("/".join, rows.values()), pa.string()),
            are_paths_listed=True,
            rejected=tuple(
                Rejection(source=path.removeprefix(input_split.root), row=None, reason=reason)
                for path, reason in wrong.items()
                if reason
            ),
        )

    def _wrong(self, names: Sequence[str]) -> str:
        """Returns what is wrong with a path below the root; empty if nothing is."""
        if not all(map(str.isascii, names)) and any(map(_SURROGATE.search, names)):
            return "a name that is not UTF-8"
        return "" if len(names) == 2 or not self.labelled else "not at <input>/<class>/<file>"


def _directory(given: Input, found: Sequence[files.InputFile]) -> str:
    """Returns the directory that an input names, or that all files of a glob are in."""
    named = f"{given.location.rstrip('/')}/"
    if all(file.path.startswith(named) for file in found):
        return named
    return files.common_root(file.path for file in found)


# --- Tables that name images in more folders than their own.


@dataclasses.dataclass(frozen=True, kw_only=True)
class WithPathRoots:
    """A source with `roots` as further folders that paths in its cells may lead into."""

    source: Source
    roots: tuple[str, ...]

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        return self.source.input_splits(inputs)

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        for raw in self.source.read(input_split):
            yield dataclasses.replace(raw, path_roots=self.roots)
