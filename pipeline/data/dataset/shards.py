"""The index of a shard: where each of its records starts, how long it is, and a hash of its content.

A file beside the shard, all numbers little-endian:

  bytes 0…15     the magic `penstock.index/1`
  bytes 16…23    uint64, the number n of records
  then           uint64 [n] offsets: byte of the shard at which each record's TFRecord frame starts
  then           uint64 [n] hashes: 8-byte BLAKE2b of each payload
  then           uint32 [n] lengths: bytes of each payload, which starts 12 bytes after its frame

Standard library and numpy only.
"""

import dataclasses
import functools
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.base import files, process_memory
from pipeline.base.errors import InputError
from pipeline.base.files import FileState
from pipeline.data.dataset import blocks, row_hashes
from pipeline.data.dataset.manifest import Dataset, Shard, damaged_file, published_in_turn
from pipeline.data.dataset.tfrecord import CRC_BYTES, FRAME_BYTES, HEADER_BYTES, is_sound

_MAGIC = b"penstock.index/1"
_HEAD_BYTES = len(_MAGIC) + 8
_RECORD_BYTES = 8 + row_hashes.BYTES + 4
_TFRECORD = re.compile(r"\.tfrecords?(?=(-\d+-of-\d+)?$)")  # ending in the name of a shard


@dataclasses.dataclass(frozen=True, kw_only=True)
class Index:
    """Offsets uint64 [n], lengths uint32 [n] and hashes uint64 [n] of n records, in stored order."""

    offsets: np.ndarray
    lengths: np.ndarray
    hashes: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def end(self) -> int:
        """The byte at which the last record ends; 0 without records."""
        return int(self.offsets[-1]) + int(self.lengths[-1]) + FRAME_BYTES if len(self) else 0


def file_name(shard: str) -> str:
    """Name of the index of the shard that is called `shard`.

    `x-train.tfrecord-00000-of-00008` gives `x-train-00000-of-00008.index`, and `part-1.tfrecord` gives
    `part-1.index`: neither TFDS nor a glob for `*.tfrecord*` takes these for shards. `.index` is appended to
    any other name.
    """
    return _TFRECORD.sub("", shard) + ".index"


def size_of(records: int) -> int:
    """The bytes of an index of `records` records."""
    return _HEAD_BYTES + records * _RECORD_BYTES


def offset_at(ordinal: int) -> int:
    """The byte of the index at which a record's offset stands; the next record's offset follows it."""
    return _HEAD_BYTES + 8 * ordinal


def dumps(index: Index) -> bytes:
    columns = ((index.offsets, "<u8"), (index.hashes, "<u8"), (index.lengths, "<u4"))
    # They are not copied before they are joined: an index of very small records has hundreds of megabytes.
    arrays = (np.ascontiguousarray(column, dtype) for column, dtype in columns)
    return b"".join((_MAGIC, len(index).to_bytes(8, "little"), *arrays))


def load(path: str | os.PathLike) -> Index:
    """Reads an index; raises InputError if the file is not an index, or is cut short."""
    return loads(files.read_bytes(path), path)


def loads(content: bytes, path: str | os.PathLike) -> Index:
    """The inverse of `dumps`; `path` names the file in the InputError."""
    records = int.from_bytes(content[len(_MAGIC) : _HEAD_BYTES], "little")
    if not content.startswith(_MAGIC) or len(content) != size_of(records):
        raise _is_none(path, len(content), content[: len(_MAGIC)], records)
    offsets, hashes, lengths = _columns(records)
    return Index(
        offsets=np.frombuffer(content, "<u8", records, offsets),
        hashes=np.frombuffer(content, "<u8", records, hashes),
        lengths=np.frombuffer(content, "<u4", records, lengths),
    )


@dataclasses.dataclass(frozen=True)
class IndexFile:
    """An index that is read in parts and not held: for a billion records it has 20 GB."""

    path: str
    records: int

    def part(self, first: int, last: int) -> Index:
        """The entries of the records [first, last); raises InputError if the file is not such an index."""
        count = last - first
        with files.opened(self.path) as file:
            # Read without a buffer: on a network disk Python's buffer may have several MiB.
            head, size = os.pread(file.fileno(), _HEAD_BYTES, 0), os.fstat(file.fileno()).st_size
            if head != _MAGIC + self.records.to_bytes(8, "little") or size != size_of(self.records):
                raise _is_none(self.path, size, head[: len(_MAGIC)], self.records)
            offsets, hashes, lengths = _columns(self.records)
            return Index(
                offsets=_read(file.fileno(), "<u8", count, offsets + 8 * first),
                hashes=_read(file.fileno(), "<u8", count, hashes + 8 * first),
                lengths=_read(file.fileno(), "<u4", count, lengths + 4 * first),
            )


def _columns(records: int) -> tuple[int, int, int]:
    """Where offsets, hashes and lengths begin, in bytes."""
    return _HEAD_BYTES, _HEAD_BYTES + 8 * records, _HEAD_BYTES + 16 * records


def _read(descriptor: int, dtype: str, count: int, start: int) -> np.ndarray:
    return np.frombuffer(os.pread(descriptor, count * np.dtype(dtype).itemsize, start), dtype, count)


def _is_none(path: str | os.PathLike, size: int, start: bytes, records: int) -> InputError:
    received = f"{size:,} bytes that start with {start!r}"
    return damaged_file(f"index {path}", received, f"{_MAGIC!r} and {size_of(records):,} bytes")


# --- Checks that a shard and its index are those that were published, without reading all of them.

_READ_AT_ONCE = 64 << 10  # 64 KiB: a smaller shard is read as a whole, not record by record
_HASHED = 8 << 10  # 8 KiB: the digest of a smaller shard takes less time than hashes of three records
_COMPARED_TOGETHER = 1 << 16  # records that are compared at once, because they need some MiB of copies

States = tuple[FileState, FileState]  # states of a shard and of its index


class _Entry(NamedTuple):
    ordinal: int  # number in the shard, from 0
    offset: int
    length: int
    content_hash: int


def load_checked_index(dataset: Dataset, shard: Shard) -> Index:
    """Reads the whole index of a shard; raises InputError unless it is the published one, and fits the shard.

    It checks the digest, the count, places and end of the records, and the content of a few records.
    """
    return open_checked(dataset, [shard])[0][0]


def open_checked(dataset: Dataset, shards: Sequence[Shard]) -> tuple[list[Index], list[States]]:
    """`load_checked_index` of several shards, with the files' states before they were read."""
    names = [file_name(shard.path) for shard in shards]
    read = published_in_turn(dataset.directory, dataset.manifest, names)
    found = [loads(content, dataset.path_of(name)) for (content, _), name in zip(read, names, strict=True)]
    _check_places(dataset, shards, found)
    states = _check_contents(dataset, shards, [_samples(each) for each in found], is_published=True)
    return found, list(zip(states, (of_index for _, of_index in read), strict=True))


def _check_places(dataset: Dataset, shards: Sequence[Shard], found: Sequence[Index]) -> None:
    """Checks that each record begins where the one before it ends, and that the last one ends the shard.

    TensorFlow would read whatever stands at another place. Small indexes are compared together: with 4
    records each, separate calls of NumPy would take half of the time.
    """
    if len(found) > 1 and sum(map(len, found)) > _COMPARED_TOGETHER:
        for shard, each in zip(shards, found, strict=True):
            _check_places(dataset, [shard], [each])
        return
    counts = np.array([len(each) for each in found])
    after, has_some = np.cumsum(counts), counts > 0
    starts = np.concatenate([each.offsets for each in found]).astype(np.int64)
    ends = starts + np.concatenate([each.lengths for each in found]) + FRAME_BYTES
    expected = np.concatenate([[0], ends])[:-1]
    expected[(after - counts)[has_some]] = 0
    differ = np.flatnonzero(starts != expected)
    if not len(differ):
        last_ends = np.zeros(len(found), np.int64)
        last_ends[has_some] = ends[after[has_some] - 1]
        for shard, records, end in zip(shards, counts.tolist(), last_ends.tolist(), strict=True):
            _check_end(dataset, shard, records, end)
        return
    of_all = int(differ[0])
    which = int(np.searchsorted(after, of_all, side="right"))
    record = of_all - int(counts[:which].sum())
    raise damaged_file(
        f"index {dataset.path_of(file_name(shards[which].path))}",
        f"byte {starts[of_all]:,} as the start of record {record:,}",
        f"byte {expected[of_all]:,}, where the record before it ends",
    )


def check_ends(dataset: Dataset, shard: Shard) -> States:
    """Raises InputError where a few entries of an index do not fit its shard.

    It is not read as a whole, so its digest is not compared.
    """
    path = dataset.path_of(file_name(shard.path))
    of_index, found = files.file_state(path), IndexFile(path, shard.records)
    sample = [_entry(n, found.part(n, n + 1), 0) for n in _sampled(shard.records)]
    end = max((entry.offset + entry.length + FRAME_BYTES for entry in sample), default=0)
    _check_end(dataset, shard, shard.records, end)
    [state] = _check_contents(dataset, [shard], [sample], is_published=False)
    return state, of_index


def _sampled(records: int) -> list[int]:
    """The numbers of the first, the middle and the last record."""
    return sorted({0, (records - 1) // 2, records - 1}) if records else []


def _samples(found: Index) -> Iterator[_Entry]:
    """Yields the sampled entries one by one, because a small shard mostly needs none."""
    for ordinal in _sampled(len(found)):
        yield _entry(ordinal, found, ordinal)


def _entry(ordinal: int, found: Index, at: int) -> _Entry:
    return _Entry(ordinal, int(found.offsets[at]), int(found.lengths[at]), int(found.hashes[at]))


def _check_end(dataset: Dataset, shard: Shard, records: int, end: int) -> None:
    if (records, end) != (shard.records, shard.bytes):
        raise damaged_file(
            f"index {dataset.path_of(file_name(shard.path))}",
            f"{records:,} records that end at byte {end:,}",
            f"{shard.records:,} that end at byte {shard.bytes:,}, as {shard.path} has them",
        )


def _check_contents(
    dataset: Dataset, shards: Sequence[Shard], sampled: Sequence[Iterable[_Entry]], *, is_published: bool
) -> list[FileState]:
    """Compares records with their hashes, which differ in a shard that was swapped for another.

    Args:
      sampled: some entries of each shard's index.
      is_published: the indexes are known to be the published ones.

    Returns: the shards as they were before they were read.
    """
    paths = [dataset.path_of(shard.path) for shard in shards]
    each = zip(paths, shards, sampled, files.opened_ahead(paths), strict=True)
    return [
        _check_content(file, path, shard, sample, is_published=is_published)
        for path, shard, sample, file in each
    ]


def _check_content(
    descriptor: int, path: str, shard: Shard, sample: Iterable[_Entry], *, is_published: bool
) -> FileState:
    state = files.state_of_status(files.checked(descriptor, path))
    is_small = shard.bytes <= _READ_AT_ONCE
    whole = files.read_at(descriptor, path, shard.bytes, 0) if is_small else b""
    is_whole = len(whole) == shard.bytes
    is_hashed = is_published and is_whole and len(whole) <= _HASHED
    if is_hashed and hashlib.sha256(whole).hexdigest() == shard.sha256:
        return state
    for entry in sample:
        begin, size = entry.offset + HEADER_BYTES, entry.length + CRC_BYTES
        stored = whole[begin : begin + size] if is_whole else files.read_at(descriptor, path, size, begin)
        payload, checksum = stored[:-CRC_BYTES], stored[-CRC_BYTES:]
        # A record that is damaged, not swapped, is reported when it is read.
        if is_sound(payload, checksum) and row_hashes.content_hashes([payload])[0] != entry.content_hash:
            raise InputError(
                f"dataset file {path}",
                received=f"a record {entry.ordinal:,} that is sound, but not the one that was published",
                expected=f"the shard with SHA-256 {shard.sha256[:12]}…",
                action="It was modified or swapped: restore it from a copy, or convert the data again.",
            )
    return state


# --- Where the records of a dataset are: shard, offset and size of each, from the indexes.

Ranges = tuple[tuple[int, int], ...]  # ranges of row numbers: [first, after the last), ascending, none empty

# The offsets of up to this number of records are held in memory (128 MiB). In a larger dataset each record is
# looked up in its index when it is read.
HELD_RECORDS = 1 << 24


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stored:
    """Consecutive records of a shard: where and what they are."""

    numbers: range  # numbers over all shards
    offsets: np.ndarray  # int64 [n]: byte of the shard at which a record's TFRecord frame starts
    sizes: np.ndarray  # int64 [n]: bytes of the frame
    hashes: np.ndarray  # uint64 [n]: hash of the content, as in the index


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shards:
    """Every record of some shards; records and rows are numbered over all of them, in their order.

    In layout `rows` a row is a record; in layout `blocks` a record holds a block of rows.
    """

    paths: tuple[str, ...]  # absolute paths
    names: tuple[str, ...]  # names relative to the dataset, as in its manifest
    record_starts: np.ndarray  # int64 [shards + 1]: each shard's first record, then the number of all records
    row_starts: np.ndarray  # int64 [shards + 1]: each shard's first row, then the number of all rows
    bytes: np.ndarray  # int64 [shards]: size of the file
    rows_in_record: int  # in every record but a shard's last
    # int64 [records]: byte of its shard at which a record's frame starts; None where there are too many.
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
        count = int(self.record_starts[shard + 1] - self.record_starts[shard])
        return IndexFile(file_name(self.paths[shard]), count)

    def stored(self, shard: int, first: int, last: int) -> Stored:
        """The index entries of the records of `shard` with the numbers [first, last) over all shards.

        Raises InputError where the file is no longer an index.
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

    def place_of_record(self, record: int) -> tuple[int, int]:
        """The shard that holds a record, and the record's number in it."""
        shard = self.shard_of_record(record)
        return shard, record - int(self.record_starts[shard])

    def record_of_row(self, row: int) -> int:
        """The record that holds a row."""
        shard = self.shard_of_row(row)
        return int(self.record_starts[shard]) + (row - int(self.row_starts[shard])) // self.rows_in_record

    def rows_of_record(self, record: int) -> tuple[int, int]:
        """The rows that a record holds, [first, after the last)."""
        shard, ordinal = self.place_of_record(record)
        first = int(self.row_starts[shard]) + ordinal * self.rows_in_record
        return first, min(first + self.rows_in_record, int(self.row_starts[shard + 1]))


@process_memory.uncollected()
def load_tables(dataset: Dataset, splits: Iterable[str]) -> Shards:
    """The shards of whole splits, one split after the other.

    Raises:
      InputError: there is no such split, a split has no records, or an index does not fit its shard in count,
        size, the content of a few records or, where the offsets are held, in digest.
      TryAgainError: a file could not be read, even after retries.
    """
    listed = [shard for split in splits for shard in dataset.shards(split)]
    rows_in_record = blocks.geometry(dataset.schema).rows if dataset.manifest.layout == "blocks" else 1
    _check_rows(dataset, listed, rows_in_record)
    shards = [shard for shard in listed if shard.records]
    is_held = sum(shard.records for shard in shards) <= HELD_RECORDS
    check = functools.partial(_offsets if is_held else _checked, dataset)
    turns = files.in_turns(functools.partial(files.one_by_one, check), shards)
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


def join_tables(parts: Sequence[Shards]) -> Shards:
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
    """The offsets of all records of some shards, int64 [n]; and the files as they were before."""
    found, states = open_checked(dataset, shards)
    if dataset.manifest.layout == "blocks":
        _check_blocks(dataset, np.concatenate([each.lengths for each in found]))
    return np.concatenate([each.offsets for each in found]).astype(np.int64), _hashes(states)


def _checked(dataset: Dataset, shards: Sequence[Shard]) -> tuple[None, np.ndarray]:
    states = _hashes(check_ends(dataset, shard) for shard in shards)
    if dataset.manifest.layout == "blocks":
        for shard in shards:
            _check_blocks(dataset, np.array([shard.bytes / shard.records - FRAME_BYTES]))
    return None, states


def _hashes(states: Iterable[States]) -> np.ndarray:
    return np.array([(hash(of_shard), hash(of_index)) for of_shard, of_index in states], np.int64)


def _check_blocks(dataset: Dataset, lengths: np.ndarray) -> None:
    """Checks that every block has the size that the schema gives: rows are found by their offset in a
    block.
    """
    expected = blocks.frame_of_schema(dataset.schema).size
    if (lengths != expected).any():
        raise InputError(
            f"dataset {dataset}",
            received=f"blocks of {lengths.min():,} to {lengths.max():,} bytes",
            expected=f"{expected:,} bytes each, as beam_jobs.convert writes blocks of this schema",
            action="Convert the raw data again.",
        )


def _starts(counts: Iterable[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(list(counts))]).astype(np.int64)
