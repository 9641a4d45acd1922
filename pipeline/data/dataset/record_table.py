"""Where the records of a dataset are: shard, offset and size of each, from the indexes.

Rows are numbered over all shards, in their order. In layout `rows` a row is a record; in layout `blocks` a
record holds a block of rows. Standard library and numpy only.
"""

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import numpy as np

from pipeline.data import process_memory, retried, waiting
from pipeline.data.dataset import block_frame, blocks, index
from pipeline.data.dataset.checks import shard_check
from pipeline.data.dataset.checks.shard_check import States
from pipeline.data.dataset.index import IndexFile
from pipeline.data.dataset.manifest import Dataset, Shard
from pipeline.data.dataset.tfrecord import FRAME_BYTES
from pipeline.data.errors import InputError

# Of some shards: int64 [records] offsets, if they are held; int64 [shards, 2] hashes of the files.
_Checked = tuple[np.ndarray | None, np.ndarray]
Ranges = tuple[tuple[int, int], ...]  # of row numbers: [first, after the last), ascending, none empty

# Offsets of so many records are held in memory: 128 MiB. Those of more are looked up in the indexes, record
# by record, as they are read.
HELD_RECORDS = 1 << 24


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stored:
    """Consecutive records of a shard: where and what they are."""

    numbers: range  # over all shards
    offsets: np.ndarray  # int64 [n]: byte of the shard at which a record's TFRecord frame starts
    sizes: np.ndarray  # int64 [n]: bytes of the frame
    hashes: np.ndarray  # uint64 [n]: of the content, as in the index


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shards:
    """Every record of some shards; records and rows are numbered over all of them."""

    paths: tuple[str, ...]  # absolute
    names: tuple[str, ...]  # relative to the dataset, as its manifest has them
    record_starts: np.ndarray  # int64 [shards + 1]: each shard's first record, then the number of all records
    row_starts: np.ndarray  # int64 [shards + 1]: each shard's first row, then the number of all rows
    bytes: np.ndarray  # int64 [shards]: size of the file
    rows_in_record: int  # in every record but a shard's last
    # int64 [records]: byte of its shard at which a record's frame starts; None where they are too many.
    offsets: np.ndarray | None
    states: np.ndarray  # int64 [shards, 2]: hash of the FileState of a shard and of its index, when opened

    @property
    def records(self) -> int:
        return int(self.record_starts[-1])

    @property
    def mean_bytes(self) -> float:
        """Mean size of a record's frame: nothing else is in a shard."""
        return float(self.bytes.sum() / self.records)

    def index(self, shard: int) -> IndexFile:
        """The index of a shard."""
        count = int(self.record_starts[shard + 1] - self.record_starts[shard])
        return IndexFile(index.file_name(self.paths[shard]), count)

    def stored(self, shard: int, first: int, last: int) -> Stored:
        """What the index of `shard` says of its records with the numbers [first, last) over all shards.

        Raises InputError where the index is none any more.
        """
        start = int(self.record_starts[shard])
        found = self.index(shard).part(first - start, last - start)
        return Stored(
            numbers=range(first, last),
            offsets=found.offsets.astype(np.int64),
            sizes=found.lengths.astype(np.int64) + FRAME_BYTES,
            hashes=found.hashes,
        )

    def shard_of_row(self, row: int) -> int:
        return int(np.searchsorted(self.row_starts, row, side="right")) - 1

    def shard_of_record(self, record: int) -> int:
        return int(np.searchsorted(self.record_starts, record, side="right")) - 1

    def record_of_row(self, row: int) -> int:
        """The record that holds a row."""
        shard = self.shard_of_row(row)
        return int(self.record_starts[shard]) + (row - int(self.row_starts[shard])) // self.rows_in_record

    def rows_of_record(self, record: int) -> tuple[int, int]:
        """The rows that a record holds, [first, after the last)."""
        shard = self.shard_of_record(record)
        ordinal = record - int(self.record_starts[shard])
        first = int(self.row_starts[shard]) + ordinal * self.rows_in_record
        return first, min(first + self.rows_in_record, int(self.row_starts[shard + 1]))


@process_memory.uncollected()
def load(dataset: Dataset, splits: Iterable[str]) -> Shards:
    """The shards of whole splits, one split after the other.

    Raises:
      InputError: there is no such split, a split has no records, or an index does not fit its shard: by
        count, size, the content of a few records, and by digest where the offsets are held.
      TryAgainError: a file could not be read by any try.
    """
    listed = [shard for split in splits for shard in dataset.shards(split)]
    rows_in_record = blocks.geometry(dataset.schema).rows if dataset.manifest.layout == "blocks" else 1
    _check_rows(dataset, listed, rows_in_record)
    shards = [shard for shard in listed if shard.records]
    is_held = sum(shard.records for shard in shards) <= HELD_RECORDS
    check = functools.partial(_offsets if is_held else _checked, dataset)
    turns = waiting.in_turns(functools.partial(retried.one_by_one, check), shards)
    found = [each for turn in turns for each in turn]
    return Shards(
        paths=tuple(dataset.path_of(shard.path) for shard in shards),
        names=tuple(shard.path for shard in shards),
        record_starts=_starts(shard.records for shard in shards),
        row_starts=_starts(shard.rows for shard in shards),
        bytes=np.array([shard.bytes for shard in shards], np.int64),
        rows_in_record=rows_in_record,
        offsets=np.concatenate([offsets for offsets, _ in found]) if is_held else None,
        states=np.concatenate([states for _, states in found]),
    )


def _check_rows(dataset: Dataset, shards: Iterable[Shard], rows_in_record: int) -> None:
    """Raises InputError where a shard cannot have as many rows, records and bytes as the manifest says."""
    for shard in shards:
        if shard.records != -(-shard.rows // rows_in_record) or (shard.bytes and not shard.records):
            raise InputError(
                f"manifest of dataset {dataset}",
                received=f"{shard.rows:,} rows in the {shard.records:,} records of {shard.path} "
                f"({shard.bytes:,} bytes)",
                expected=f"{rows_in_record:,} in each, and in the last one as many or fewer",
                action="Restore it from a copy, or convert the raw data again.",
            )


def joined(parts: Sequence[Shards]) -> Shards:
    """The shards of all parts of layout `rows`, one after the other."""
    counts = np.concatenate([np.diff(part.record_starts) for part in parts])
    is_held = counts.sum() <= HELD_RECORDS and all(part.offsets is not None for part in parts)
    return Shards(
        paths=tuple(path for part in parts for path in part.paths),
        names=tuple(name for part in parts for name in part.names),
        record_starts=_starts(counts),
        row_starts=_starts(counts),
        bytes=np.concatenate([part.bytes for part in parts]),
        rows_in_record=1,
        offsets=np.concatenate([part.offsets for part in parts]) if is_held else None,
        states=np.concatenate([part.states for part in parts]),
    )


def _offsets(dataset: Dataset, shards: Sequence[Shard]) -> tuple[np.ndarray, np.ndarray]:
    """Of all records of some shards, one after the other, int64 [n]; and the files as they were before."""
    found, states = shard_check.opened(dataset, shards)
    if dataset.manifest.layout == "blocks":
        _check_blocks(dataset, np.concatenate([each.lengths for each in found]))
    return np.concatenate([each.offsets for each in found]).astype(np.int64), _hashes(states)


def _checked(dataset: Dataset, shards: Sequence[Shard]) -> tuple[None, np.ndarray]:
    states = _hashes(shard_check.check_ends(dataset, shard) for shard in shards)
    if dataset.manifest.layout == "blocks":
        for shard in shards:
            _check_blocks(dataset, np.array([shard.bytes / shard.records - FRAME_BYTES]))
    return None, states


def _hashes(states: Iterable[States]) -> np.ndarray:
    return np.array([(hash(of_shard), hash(of_index)) for of_shard, of_index in states], np.int64)


def _check_blocks(dataset: Dataset, lengths: np.ndarray) -> None:
    """Rows are found by their offset in a block, so every block must have the size that the schema gives."""
    expected = block_frame.of_schema(dataset.schema).size
    if (lengths != expected).any():
        raise InputError(
            f"dataset {dataset}",
            received=f"blocks of {lengths.min():,} to {lengths.max():,} bytes",
            expected=f"{expected:,} bytes each, as beam_jobs.convert writes blocks of this schema",
            action="Convert the raw data again.",
        )


def _starts(counts: Iterable[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(list(counts))]).astype(np.int64)
