"""Tells where rows of a published dataset came from, from the files in its folder `origins/`.

The manifest does not list them: they hold names of raw files, which the dataset's digest does not depend on.
So each holds its own checksums, and may be deleted. A question reads some kilobytes, whatever the size of the
dataset. Standard library and numpy only.
"""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from pipeline.data.dataset import index
from pipeline.data.dataset.manifest import Dataset, Manifest, Shard
from pipeline.data.dataset.origins import files, rows
from pipeline.data.dataset.origins.files import Entry, Folder
from pipeline.data.dataset.origins.origin import Origin
from pipeline.data.dataset.origins.rows import DamagedError
from pipeline.data.errors import InputError

FOLDER = "origins"
FILES_NAME = f"{FOLDER}/files"
_KEPT = 64  # chunks of names

_Read = TypeVar("_Read")


def file_name(shard: str) -> str:
    """Relative path of the origins of the shard that is called `shard`.

    `x-train.tfrecord-00000-of-00008` gives `origins/x-train-00000-of-00008.rows`.
    """
    return f"{FOLDER}/{index.file_name(shard).removesuffix('.index')}.rows"


class OriginsError(InputError):
    """The file at `path` is damaged, or of another dataset."""

    path: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Shard:
    path: pathlib.Path
    header: rows.Header


class Found(NamedTuple):
    """A row of a part of a raw file."""

    entry: Entry
    row: int  # in the part, from 1; 0 where the file is one row

    @property
    def origin(self) -> Origin:
        return Origin(self.entry.name, self.entry.rows_before + self.row if self.row else None)


class Origins:
    """Where each row of a dataset came from. Reads when it is asked; holds no row.

    `origins_of(dataset)` opens them, or says that a dataset has none.
    """

    def __init__(self, directory: pathlib.Path, manifest: Manifest) -> None:
        self._directory = directory
        self._published = {shard.path: shard for shards in manifest.splits.values() for shard in shards}
        self._path = directory / FILES_NAME
        self._head = _told(self._path, self._read_head)
        self._shards: dict[str, _Shard | None] = {}
        self._entries: dict[int, list[Entry]] = {}

    @functools.cached_property
    def folder(self) -> Folder:
        """What is common to all raw files: the directory that they were in, and how their lines end."""
        return _told(self._path, lambda: files.folder(self._chunk_of_files(0), self._head))

    def of(self, shard: str, ordinal: int) -> Origin | None:
        """The origin of a row of the shard that the manifest calls `shard`; `ordinal` counts its rows from 0.

        None where the shard's file of origins is not there. Raises InputError where it is damaged, or of
        another dataset, and IndexError or KeyError where the dataset has no such row or shard.
        """
        return self.of_rows(shard, np.array([ordinal]))[0]

    def of_rows(self, shard: str, ordinals: np.ndarray) -> list[Origin | None]:
        """`of` for many rows of one shard, int64 [n], at once."""
        found = self.found(shard, ordinals)
        return [None if place is None else place.origin for place in found]

    def found(self, shard: str, ordinals: np.ndarray) -> list[Found | None]:
        """`of_rows`, each with the part of a file that it is in."""
        if len(ordinals) and not 0 <= ordinals.min() <= ordinals.max() < self._published[shard].rows:
            raise IndexError(f"{shard} has {self._published[shard].rows:,} rows")
        opened = self._opened(shard)
        if opened is None:
            return [None] * len(ordinals)
        numbers, in_part = self._places(opened, ordinals)
        return [
            Found(self._entry(at), row) for at, row in zip(numbers.tolist(), in_part.tolist(), strict=True)
        ]

    def check(self, shard: str) -> None:
        """Reads all of a shard's origins; raises InputError as `of` does, and where its file is not there."""
        opened = self._opened(shard)
        if opened is None:
            raise _damaged(self._directory / file_name(shard), "no such file")
        if opened.path.stat().st_size != opened.header.bytes:
            raise _damaged(opened.path, f"{opened.path.stat().st_size:,} bytes")
        numbers = [np.unique(of_chunk) for of_chunk, _ in self._chunks(opened, range(opened.header.chunks))]
        for number in np.unique(np.concatenate([np.zeros(0, np.int64), *numbers])).tolist():
            self._entry(number)

    def check_files(self) -> None:
        """Reads the whole list of files; raises InputError where it is damaged."""
        size = self._path.stat().st_size
        if size != self._head.offsets[-1]:
            raise _damaged(self._path, f"{size:,} bytes")
        for chunk in range(len(self._head.checksums)):
            _told(self._path, lambda chunk=chunk: self._check_chunk(chunk))

    def _check_chunk(self, chunk: int) -> None:
        files.check(self._chunk_of_files(chunk), self._head, chunk)

    def _opened(self, shard: str) -> _Shard | None:
        if shard not in self._shards:
            path = self._directory / file_name(shard)
            found = path.exists()
            self._shards[shard] = (
                _told(path, lambda: self._open(path, self._published[shard])) if found else None
            )
        return self._shards[shard]

    def _open(self, path: pathlib.Path, published: Shard) -> _Shard:
        header = rows.header(_bytes(path, 0, rows.HEADER_BYTES))
        if (header.shard_sha256, header.rows) != (published.sha256, published.rows):
            raise DamagedError(f"origins of a shard with SHA-256 {header.shard_sha256[:12]}…")
        if header.files_id != self._head.files_id:
            raise DamagedError(f"origins that do not go with {FILES_NAME}")
        return _Shard(path=path, header=header)

    def _places(self, shard: _Shard, ordinals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of files, and of rows there, int64 [n] each."""
        numbers, in_file = np.zeros(len(ordinals), np.int64), np.zeros(len(ordinals), np.int64)
        chunk = ordinals // rows.CHUNK_ROWS
        wanted = np.unique(chunk).tolist()
        for number, (of_chunk, rows_there) in zip(wanted, self._chunks(shard, wanted), strict=True):
            mine = chunk == number
            numbers[mine] = of_chunk[ordinals[mine] % rows.CHUNK_ROWS]
            in_file[mine] = rows_there[ordinals[mine] % rows.CHUNK_ROWS]
        return numbers, in_file

    def _chunks(self, shard: _Shard, wanted: list[int] | range) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for number in wanted:
            yield _told(shard.path, lambda number=number: _read_chunk(shard, number))

    def _entry(self, number: int) -> Entry:
        chunk, place = self._head.chunk_of(number)
        if chunk not in self._entries:
            if len(self._entries) >= _KEPT:
                self._entries.pop(next(iter(self._entries)))
            self._entries[chunk] = _told(self._path, lambda: self._read_entries(chunk))
        return self._entries[chunk][place]

    def _read_entries(self, chunk: int) -> list[Entry]:
        if chunk >= len(self._head.checksums):
            raise DamagedError("too few files")
        return files.entries(self._chunk_of_files(chunk), self._head, chunk)

    def _chunk_of_files(self, chunk: int) -> bytes:
        start, end = self._head.offsets[chunk : chunk + 2].tolist()
        return _bytes(self._path, start, end - start)

    def _read_head(self) -> files.Head:
        size = files.head_bytes(_bytes(self._path, 0, files.HEAD_BYTES))
        return files.head(_bytes(self._path, 0, min(size, self._path.stat().st_size)))


def origins_of(dataset: Dataset) -> Origins | None:
    """Where the rows of `dataset` came from; None where it does not say: see `open_origins`."""
    return open_origins(dataset.directory, dataset.manifest)


def open_origins(directory: pathlib.Path, manifest: Manifest) -> Origins | None:
    """None where there are no origins: an earlier version or `--noorigins` wrote the dataset, or they were
    deleted. Raises InputError where the list of files is damaged.
    """
    return Origins(directory, manifest) if (directory / FILES_NAME).exists() else None


def damage(directory: pathlib.Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Name and problem of each file of origins that is not as it was written; none if there is no folder."""
    if not (directory / FOLDER).exists():
        return
    problems: dict[str, str] = {}
    with _collected(problems):
        origins = Origins(directory, manifest)
        with _collected(problems):
            origins.check_files()
        for shard in (shard for shards in manifest.splits.values() for shard in shards):
            with _collected(problems):
                origins.check(shard.path)
    for path, problem in problems.items():
        yield str(pathlib.Path(path).relative_to(directory)), problem


@contextlib.contextmanager
def _collected(problems: dict[str, str]) -> Iterator[None]:
    try:
        yield
    except OriginsError as error:
        problems[error.path] = error.received


def _read_chunk(shard: _Shard, number: int) -> tuple[np.ndarray, np.ndarray]:
    offset, count = shard.header.chunk(number)
    return rows.unpacked(_bytes(shard.path, offset, shard.header.chunk_bytes(count)), shard.header, count)


def _bytes(path: pathlib.Path, offset: int, size: int) -> bytes:
    if not path.is_file():  # a pipe is not waited for
        raise DamagedError("no ordinary file")
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)


def _told(path: pathlib.Path, read: Callable[[], _Read]) -> _Read:
    try:
        return read()
    except (DamagedError, OSError) as error:
        raise _damaged(path, str(error)) from None


def _damaged(path: pathlib.Path, received: str) -> OriginsError:
    error = OriginsError(
        f"dataset file {path}",
        received=received,
        expected="the origins of rows that beam_jobs.convert wrote there",
        action=f"Restore the file, or delete the folder {FOLDER}: the dataset is whole without it.",
    )
    error.path = str(path)
    return error
