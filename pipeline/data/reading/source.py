"""Rows by their position, as NumPy arrays: for Grain, torch, or a loop of one's own. No TensorFlow.

A `RowSource` is what Grain calls a `RandomAccessDataSource` and torch a map-style dataset. It keeps no place
in the data, so any number of processes may read it, each starting at any position.
"""

import contextlib
import dataclasses
import functools
import mmap
import operator
import os
import pathlib
import threading
from collections.abc import Callable, Sequence
from typing import BinaryIO, Protocol, SupportsIndex

import numpy as np

from pipeline.base.errors import InputError
from pipeline.data.dataset import blocks
from pipeline.data.dataset.examples import ExampleReader, NotAnExampleError
from pipeline.data.dataset.manifest import damaged_file
from pipeline.data.dataset.selection import Selection
from pipeline.data.dataset.tfrecord import CRC_BYTES, FRAME_BYTES, HEADER_BYTES, are_sound, problem
from pipeline.data.reading.positions import Order, stored_order, stream_order
from pipeline.data.schema.feature import Feature

Row = dict[str, object]  # a NumPy scalar or array; bytes for a string
Rows = dict[str, np.ndarray]  # [n, *shape] each: float32, int64, or bytes objects


class RowSource:
    """The rows of a selection by position: `source[7]`, `source[512:768]`, `source[[3, 1]]`.

    One position gives a row, several give the rows together. Every checksum is compared, a block's once.

    Args:
      selection: what is read.
      order: which row stands at a position, such as `positions.stream_order` gives.
      epochs: how many epochs follow each other; positions run on through all of them.

    Raises:
      InputError: a row is damaged, or its file is gone; raised when this row is read.
      IndexError, TypeError: there is no such position, as for a list.
    """

    def __init__(self, selection: Selection, order: Order, *, epochs: int = 1) -> None:
        self._order, self._length = order, epochs * selection.rows
        is_of_blocks = selection.shards.rows_in_record > 1
        self._reader: _Reader = _BlockReader(selection) if is_of_blocks else _RecordReader(selection)
        self._nearby = _Recent(self._numbers_near)
        row_bytes = selection.shards.mean_bytes / selection.shards.rows_in_record
        self._rows_ahead = int(np.clip(_AHEAD_BYTES / row_bytes, 1, _MOST_AHEAD))
        self._ahead = _Recent(self._read_ahead, _GROUPS_AHEAD)
        self._last: dict[int, int] = {}  # last position that each thread has read

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<RowSource of {self._length:,} rows>"

    def __getitem__(self, index: SupportsIndex | slice | Sequence[int] | np.ndarray) -> Row | Rows:
        if isinstance(index, str):
            raise TypeError(f"rows have positions, and a row has columns: source[0][{index!r}]")
        if isinstance(index, slice | Sequence | np.ndarray):
            return self._reader.read(self._order(self._positions(index)))
        position, thread = self._position(operator.index(index)), threading.get_ident()
        follows, self._last[thread] = self._last.get(thread) == position - 1, position
        if follows and self._rows_ahead > 1:
            with contextlib.suppress(InputError):  # damage of another row; for this row it is raised below
                group, at = divmod(position, self._rows_ahead)
                return {name: _own(value) for name, value in self._ahead(group)[at].items()}
        group, at = divmod(position, _NEARBY)
        columns = self._reader.read(self._nearby(group)[at : at + 1])
        return {name: column[0] for name, column in columns.items()}

    def __getitems__(self, indices: Sequence[int]) -> list[Row]:
        """The rows one by one, read together: what torch's DataLoader and Grain's batches ask for."""
        columns = self[list(indices)]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    _getitems = __getitems__  # the name that Grain calls

    def batched(self, size: int, *, hosts: int = 1, host: int = 0) -> "BatchSource":
        """The same in batches: `source.batched(256)[2]` is `source[512:768]`; see `BatchSource`."""
        return BatchSource(rows=self, size=size, hosts=hosts, host=host)

    def _position(self, index: int) -> int:
        if not -self._length <= index < self._length:
            raise IndexError(f"position {index:,} of {self._length:,} rows")
        return index % self._length

    def _positions(self, index: slice | Sequence[int] | np.ndarray) -> np.ndarray:
        if isinstance(index, slice):
            return np.arange(*index.indices(self._length), dtype=np.int64)
        given = np.asarray(index)
        if given.ndim != 1:
            raise IndexError(f"positions of {given.ndim} dimensions, where rows have one")
        if given.dtype == bool:  # a mask; read as positions, it would mean rows 0 and 1
            if len(given) != self._length:
                raise IndexError(f"a mask of {len(given):,} for {self._length:,} rows")
            return np.flatnonzero(given)
        if len(given) and not np.issubdtype(given.dtype, np.integer):
            raise TypeError(f"positions are whole numbers, not {given.dtype}")
        if len(given) and not -self._length <= int(given.min()) <= int(given.max()) < self._length:
            raise IndexError(f"positions {given.min():,} to {given.max():,} of {self._length:,} rows")
        return given.astype(np.int64) % self._length

    def _read_ahead(self, group: int) -> list[Row]:
        """Reads rows that a sequential reader will want next: one by one, each would cost ten times as
        much.
        """
        first = group * self._rows_ahead
        return self.__getitems__(range(first, min(first + self._rows_ahead, self._length)))

    def _numbers_near(self, group: int) -> np.ndarray:
        """Computes the order of hundreds of positions at once, which takes as long as for one."""
        return self._order(np.arange(group * _NEARBY, (group + 1) * _NEARBY, dtype=np.int64))


def _own(value: object) -> object:
    """Copies a value of a row that is kept, because a caller may change the value in place."""
    return value.copy() if isinstance(value, np.ndarray) else value


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchSource:
    """Whole batches of a `RowSource` by their number; each host reads its run of every global batch.

    So a batch is the same set of rows on any number of hosts. Rows after the last whole batch are left out.

    Raises:
      InputError: the hosts cannot share a batch evenly, or there are fewer rows than a batch has.
    """

    rows: RowSource
    size: int
    hosts: int = 1
    host: int = 0

    def __post_init__(self) -> None:
        for name in ("size", "hosts", "host"):
            object.__setattr__(self, name, operator.index(getattr(self, name)))
        if self.hosts > 0 and not 0 <= self.host < self.hosts:
            raise InputError(
                "host of a source's batches",
                received=f"{self.host}",
                expected=f"0 to {self.hosts - 1}: the number of this host, of {self.hosts}",
                action="Hosts are numbered from 0 on: give this one its number.",
            )
        if self.size < 1 or self.hosts < 1 or self.size % self.hosts:
            raise InputError(
                "batches of a source",
                received=f"size {self.size:,} for {self.hosts} hosts",
                expected="a positive multiple of the hosts",
                action="Choose another size, or another number of hosts.",
            )
        if self.size > len(self.rows):
            raise InputError(
                "batches of a source",
                received=f"size {self.size:,} for {len(self.rows):,} rows, so not a whole batch",
                expected="at most as many as there are rows",
                action="Choose a smaller size, or more epochs.",
            )

    def __len__(self) -> int:
        return len(self.rows) // self.size

    def __getitem__(self, index: SupportsIndex) -> Rows:
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"batch {number:,} of {len(self):,}")
        run = self.size // self.hosts
        first = number % len(self) * self.size + self.host * run
        return self.rows[first : first + run]


def stored_rows(selection: Selection, *, epochs: int = 1) -> RowSource:
    """The rows in stored order."""
    return RowSource(selection, stored_order(selection), epochs=epochs)


def stream_rows(
    selection: Selection, *, seed: int, global_batch: int, shuffle: str = "auto", epochs: int = 1
) -> RowSource:
    """The rows in the order in which training takes them."""
    order = stream_order(selection, seed=seed, global_batch=global_batch, shuffle=shuffle)
    return RowSource(selection, order, epochs=epochs)


_NEARBY = 1 << 10  # positions whose order is computed together
_MOST_AHEAD, _AHEAD_BYTES = 64, 1 << 20  # rows, and 1 MiB of them, that are read ahead
_GROUPS_AHEAD = 16  # groups that are read ahead; several threads read at different places
_GROUPS_KEPT = 64  # groups that are kept; several threads or processes read at different places


class _Recent:
    """A function that keeps its last results, but is pickled without them.

    Args:
      function: takes a number.
    """

    def __init__(self, function: Callable[[int], object], kept: int = _GROUPS_KEPT) -> None:
        self._function, self._kept = function, kept
        self._call = functools.lru_cache(maxsize=kept)(function)

    def __call__(self, number: int) -> object:
        return self._call(number)

    def __reduce__(self) -> tuple:
        return _Recent, (self._function, self._kept)


class _Reader(Protocol):
    def read(self, numbers: np.ndarray) -> Rows:
        """The rows of these numbers over all shards, int64 [n]."""


# --- Rows that are records: each is read by its offset.

_FILES_KEPT = 64  # open files
_AT_ONCE_BYTES = 1 << 20  # 1 MiB: neighbours are read together


class _RecordReader:
    def __init__(self, selection: Selection) -> None:
        self._shards, self._dataset = selection.shards, selection.dataset
        self._examples = ExampleReader(selection.dataset.schema)
        self._file = _Recent(self._opened, _FILES_KEPT)

    def read(self, numbers: np.ndarray) -> Rows:
        frames = self._frames(numbers)
        if not are_sound(frames):
            raise self._damaged(numbers, frames)
        try:
            return self._examples.read([frame[HEADER_BYTES:-CRC_BYTES] for frame in frames])
        except NotAnExampleError as error:
            raise self._error(int(numbers[error.record]), error.reason) from None

    def _frames(self, numbers: np.ndarray) -> list[bytes]:
        """The records with their frames, as their files hold them."""
        shards = np.searchsorted(self._shards.record_starts, numbers, side="right") - 1
        begins, ends = self._places(numbers, shards)
        if not len(numbers):
            return []
        follows = (begins[1:] == ends[:-1]) & (shards[1:] == shards[:-1])
        if not follows.any():
            return [
                self._bytes(*place)
                for place in zip(shards.tolist(), begins.tolist(), ends.tolist(), strict=True)
            ]
        of_run = (begins - begins[0]) // _AT_ONCE_BYTES
        firsts = np.flatnonzero(np.concatenate([[True], ~follows | (of_run[1:] != of_run[:-1])]))
        lasts = np.concatenate([firsts[1:], [len(numbers)]])
        found = []
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            begin = int(begins[first])
            run = self._bytes(int(shards[first]), begin, int(ends[last - 1]))
            cuts = zip(
                (begins[first:last] - begin).tolist(), (ends[first:last] - begin).tolist(), strict=True
            )
            found += [run[at:end] for at, end in cuts]
        return found

    def _places(self, numbers: np.ndarray, shards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the frames of records begin and end, in bytes of their shards: int64 [n] both."""
        held = self._shards.offsets
        if held is None:
            stored = [
                self._shards.stored(shard, number, number + 1)
                for shard, number in zip(shards.tolist(), numbers.tolist(), strict=True)
            ]
            begins = np.array([each.offsets[0] for each in stored], np.int64)
            return begins, begins + np.array([each.sizes[0] for each in stored], np.int64)
        following = np.minimum(numbers + 1, len(held) - 1)
        is_last = numbers + 1 == self._shards.record_starts[shards + 1]
        return held[numbers], np.where(is_last, self._shards.bytes[shards], held[following])

    def _opened(self, shard: int) -> BinaryIO:
        return _open(self._shards.paths[shard])

    def _bytes(self, shard: int, begin: int, end: int) -> bytes:
        file = self._file(shard)  # held while it is read: the cache may let go of it in another thread
        return os.pread(file.fileno(), end - begin, begin)

    def _damaged(self, numbers: np.ndarray, frames: Sequence[bytes]) -> InputError:
        shards = np.searchsorted(self._shards.record_starts, numbers, side="right") - 1
        begins, ends = self._places(numbers, shards)
        for number, frame, size in zip(numbers.tolist(), frames, (ends - begins).tolist(), strict=True):
            if reason := problem(frame, length=size - FRAME_BYTES):
                return self._error(number, reason)
        raise AssertionError("unreachable")

    def _error(self, number: int, reason: str) -> InputError:
        shard, ordinal = self._shards.place_of_record(number)
        begins, _ = self._places(np.array([number]), np.array([shard]))
        return _damaged(self._shards.paths[shard], f"record {ordinal:,} at byte {begins[0]:,}: {reason}")


def _open(path: str) -> BinaryIO:
    try:
        return pathlib.Path(path).open("rb", buffering=0)
    except OSError as error:
        raise damaged_file(f"dataset file {path}", error.strerror, "the file as it was published") from None


def _damaged(path: str, received: str) -> InputError:
    return damaged_file(f"dataset file {path}", received, "the record as it was published")


# --- Rows of blocks: shards are mapped into memory, and a block's checksum is compared when it is first used.


class _BlockReader:
    """A file that is cut short while it is mapped ends the process, as with any mapped file."""

    def __init__(self, selection: Selection) -> None:
        self._shards, schema = selection.shards, selection.dataset.schema
        geometry, frame = blocks.geometry(schema), blocks.frame_of_schema(schema)
        self._dtype, self._rows_in_block = blocks.row_dtype(schema), geometry.rows
        self._block_bytes = frame.size + FRAME_BYTES
        self._rows_at = HEADER_BYTES + frame.rows_at
        self._columns = {feature.name: _Column(feature) for feature in schema.features}
        self._maps = _Recent(self._mapped, len(self._shards.paths))
        self._is_checked = np.zeros(self._shards.records, bool)

    def read(self, numbers: np.ndarray) -> Rows:
        shards = np.searchsorted(self._shards.row_starts, numbers, side="right") - 1
        block, row = np.divmod(numbers - self._shards.row_starts[shards], self._rows_in_block)
        self._check(self._shards.record_starts[shards] + block)
        width = self._dtype.itemsize
        places = (block * self._block_bytes + self._rows_at) // width + row  # blocks are multiples of a row
        found = np.empty((len(numbers), width), np.uint8)
        for shard in np.unique(shards).tolist():
            of_shard = shards == shard
            found[of_shard] = self._maps(shard)[places[of_shard]]
        rows = found.view(self._dtype)[:, 0] if len(found) else np.empty(0, self._dtype)
        return {name: column(rows[name]) for name, column in self._columns.items()}

    def _mapped(self, shard: int) -> np.ndarray:
        """The rows of a shard and the bytes between them, uint8 [n, width]."""
        path, expected = self._shards.paths[shard], int(self._shards.bytes[shard])
        with _open(path) as file:
            if (size := os.fstat(file.fileno()).st_size) != expected:
                raise damaged_file(
                    f"dataset file {path}", f"{size:,} bytes", f"{expected:,} bytes, as published"
                )
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, np.uint8).reshape(-1, self._dtype.itemsize)

    def _check(self, records: np.ndarray) -> None:
        """Checks the blocks that were not checked before; raises InputError where one is damaged."""
        new = records[~self._is_checked[records]]
        for record in np.unique(new).tolist() if len(new) else ():
            shard, ordinal = self._shards.place_of_record(record)
            begin = ordinal * self._block_bytes
            stored = self._maps(shard).reshape(-1)[begin : begin + self._block_bytes].tobytes()
            if reason := problem(stored, length=self._block_bytes - FRAME_BYTES):
                raise _damaged(self._shards.paths[shard], f"block {ordinal:,} at byte {begin:,}: {reason}")
            self._is_checked[record] = True


@dataclasses.dataclass(frozen=True)
class _Column:
    """Turns what blocks hold of a feature, [n, *shape], into what a record would hold."""

    feature: Feature

    @functools.cached_property
    def _strings(self) -> np.ndarray | None:
        """The values that indices stand for, from `blocks.MISSING` on; None if there are no indices."""
        vocabulary = blocks.field(self.feature).vocabulary
        values = blocks.values_by_index(self.feature, vocabulary) if vocabulary else []
        return np.array([value.encode() for value in values], object) if values else None

    def __call__(self, column: np.ndarray) -> np.ndarray:
        if self._strings is None:
            return column.astype(self.feature.dtype)
        return self._strings[column - blocks.MISSING]
