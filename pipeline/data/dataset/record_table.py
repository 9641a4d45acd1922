"""Where the records of a dataset are: shard, offset and size of each, from the indexes.

Rows are numbered over all shards, in their order. In layout `rows` a row is a record; in layout `blocks` a
record holds a block of rows. Standard library and numpy only.
"""

import dataclasses
from collections.abc import Iterable

import numpy as np

from pipeline.data.dataset import block_frame, blocks, index
from pipeline.data.dataset.index import Index
from pipeline.data.dataset.manifest import Dataset, Shard, published_bytes
from pipeline.data.dataset.tfrecord import CRC_BYTES, FRAME_BYTES, HEADER_BYTES, is_sound
from pipeline.data.errors import InputError

Ranges = tuple[tuple[int, int], ...]  # of row numbers: [first, after the last), ascending, none empty

_SAMPLED_RECORDS = 3  # of a shard: first, middle, last


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shards:
    """Every record of some shards; records and rows are numbered over all of them."""

    paths: tuple[str, ...]  # absolute
    names: tuple[str, ...]  # relative to the dataset, as its manifest has them
    record_starts: np.ndarray  # int64 [shards + 1]: each shard's first record, then the number of all records
    row_starts: np.ndarray  # int64 [shards + 1]: each shard's first row, then the number of all rows
    offsets: np.ndarray  # int64 [records]: byte of its shard at which a record's TFRecord frame starts
    sizes: np.ndarray  # int64 [records]: bytes of the frame
    hashes: np.ndarray  # uint64 [records]: of the content, as in the index
    bytes: np.ndarray  # int64 [shards]: size of the file
    rows_in_record: int  # in every record but a shard's last

    @property
    def mean_bytes(self) -> float:
        """Mean size of a record's frame."""
        return float(self.sizes.mean())

    def shard_of_row(self, row: int) -> int:
        return int(np.searchsorted(self.row_starts, row, side="right")) - 1

    def record_of_row(self, row: int) -> int:
        """The record that holds a row."""
        shard = self.shard_of_row(row)
        return int(self.record_starts[shard]) + (row - int(self.row_starts[shard])) // self.rows_in_record

    def rows_of_record(self, record: int) -> tuple[int, int]:
        """The rows that a record holds, [first, after the last)."""
        shard = int(np.searchsorted(self.record_starts, record, side="right")) - 1
        ordinal = record - int(self.record_starts[shard])
        first = int(self.row_starts[shard]) + ordinal * self.rows_in_record
        return first, min(first + self.rows_in_record, int(self.row_starts[shard + 1]))


def load(dataset: Dataset, splits: Iterable[str]) -> Shards:
    """The shards of whole splits, one split after the other.

    Raises:
      InputError: there is no such split, a split has no records, or an index does not fit its shard, by
        digest, count, size, or the content of a few records.
    """
    shards = [shard for split in splits for shard in dataset.shards(split) if shard.records]
    indexes = [checked_index(dataset, shard) for shard in shards]
    lengths = np.concatenate([each.lengths for each in indexes]).astype(np.int64)
    if dataset.manifest.layout == "blocks":
        _check_blocks(dataset, lengths)
    return Shards(
        paths=tuple(str(dataset.directory / shard.path) for shard in shards),
        names=tuple(shard.path for shard in shards),
        record_starts=_starts(len(each) for each in indexes),
        row_starts=_starts(shard.rows for shard in shards),
        offsets=np.concatenate([each.offsets for each in indexes]).astype(np.int64),
        sizes=lengths + FRAME_BYTES,
        hashes=np.concatenate([each.hashes for each in indexes]),
        bytes=np.array([shard.bytes for shard in shards], np.int64),
        rows_in_record=blocks.geometry(dataset.schema).rows if dataset.manifest.layout == "blocks" else 1,
    )


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


def checked_index(dataset: Dataset, shard: Shard) -> Index:
    """The index of a shard; raises InputError where it does not fit it."""
    name = index.file_name(shard.path)
    found = index.loads(published_bytes(dataset.directory, dataset.manifest, name), name)
    end = int(found.offsets[-1] + found.lengths[-1]) + FRAME_BYTES if len(found) else 0
    if (len(found), end) != (shard.records, shard.bytes):
        received = f"{len(found):,} records that end at byte {end:,}"
        expected = f"{shard.records:,} that end at byte {shard.bytes:,}, as {shard.path} has them"
        raise _stale(dataset, name, received, expected)
    _check_content(dataset, shard, found)
    return found


def _check_content(dataset: Dataset, shard: Shard, found: Index) -> None:
    """Compares a few records with their hashes, which a shard that was swapped for another does not have."""
    path = dataset.directory / shard.path
    with path.open("rb") as file:
        for ordinal in np.linspace(0, len(found) - 1, _SAMPLED_RECORDS).astype(int):
            file.seek(int(found.offsets[ordinal]) + HEADER_BYTES)
            payload, checksum = file.read(int(found.lengths[ordinal])), file.read(CRC_BYTES)
            if not is_sound(payload, checksum):
                continue  # damaged, not swapped: reported when it is read
            if index.content_hashes([payload])[0] != found.hashes[ordinal]:
                raise InputError(
                    f"dataset file {path}",
                    received=f"a record {ordinal:,} that is sound, but not the one that was published",
                    expected=f"the shard with SHA-256 {shard.sha256[:12]}…",
                    action="It was modified or swapped: restore it from a copy, or convert the data again.",
                )


def _stale(dataset: Dataset, name: str, received: str, expected: str) -> InputError:
    return InputError(
        f"index {dataset.directory / name}",
        received=received,
        expected=expected,
        action="Restore the file from a copy, or convert the raw data again.",
    )
