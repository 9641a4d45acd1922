"""Whether a shard and its index are those that were published, by what can be told without reading all."""

import os
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pipeline.data import file_state
from pipeline.data.dataset import index
from pipeline.data.dataset.index import Index, IndexFile
from pipeline.data.dataset.manifest import Dataset, Shard, published
from pipeline.data.dataset.tfrecord import CRC_BYTES, FRAME_BYTES, HEADER_BYTES, is_sound
from pipeline.data.errors import InputError
from pipeline.data.file_state import FileState

States = tuple[FileState, FileState]  # of a shard and of its index


class _Entry(NamedTuple):
    """What an index says of a record."""

    ordinal: int  # in the shard, from 0
    offset: int
    length: int
    content_hash: int


def checked_index(dataset: Dataset, shard: Shard) -> Index:
    """All of the index of a shard; raises InputError where it is another, or does not fit the shard.

    It is compared by its digest, the count, the places and the end of its records, and the content of a few.
    """
    return opened(dataset, shard)[0]


def opened(dataset: Dataset, shard: Shard) -> tuple[Index, States]:
    """The same, with the files as they were before they were read."""
    name = index.file_name(shard.path)
    content, of_index = published(dataset.directory, dataset.manifest, name)
    found = index.loads(content, name)
    _check_places(dataset, shard, found)
    sample = [_entry(ordinal, found, ordinal) for ordinal in _sampled(len(found))]
    return found, (_check(dataset, shard, len(found), sample), of_index)


def _check_places(dataset: Dataset, shard: Shard, found: Index) -> None:
    """Each record begins where the one before it ends: from anywhere else, TensorFlow reads what it finds."""
    ends = found.offsets + found.lengths + FRAME_BYTES
    if not len(found) or (found.offsets[0] == 0 and (found.offsets[1:] == ends[:-1]).all()):
        return
    told, expected = found.offsets.astype(np.int64), np.concatenate([[0], ends[:-1].astype(np.int64)])
    first = int(np.flatnonzero(told != expected)[0])
    raise InputError(
        f"index {dataset.directory / index.file_name(shard.path)}",
        received=f"byte {told[first]:,} as the start of record {first:,}",
        expected=f"byte {expected[first]:,}, where the record before it ends",
        action="Restore the file from a copy, or convert the raw data again.",
    )


def check_ends(dataset: Dataset, shard: Shard) -> States:
    """Raises InputError where an index does not fit its shard, as far as a few of its entries tell.

    It is not read as a whole, so its digest is not compared.
    """
    path = os.path.join(dataset.directory, index.file_name(shard.path))  # noqa: PTH118 - pathlib is slow
    of_index, found = file_state.of(path), IndexFile(path, shard.records)
    entries = [_entry(n, found.part(n, n + 1), 0) for n in _sampled(shard.records)]
    return _check(dataset, shard, shard.records, entries), of_index


def _sampled(records: int) -> list[int]:
    """The first, the middle and the last."""
    return sorted({0, (records - 1) // 2, records - 1}) if records else []


def _entry(ordinal: int, found: Index, at: int) -> _Entry:
    return _Entry(ordinal, int(found.offsets[at]), int(found.lengths[at]), int(found.hashes[at]))


def _check(dataset: Dataset, shard: Shard, records: int, sample: list[_Entry]) -> FileState:
    """Compares an index with its shard; returns the shard's state from before it was read."""
    end = max((entry.offset + entry.length + FRAME_BYTES for entry in sample), default=0)
    if (records, end) != (shard.records, shard.bytes):
        raise InputError(
            f"index {dataset.directory / index.file_name(shard.path)}",
            received=f"{records:,} records that end at byte {end:,}",
            expected=f"{shard.records:,} that end at byte {shard.bytes:,}, as {shard.path} has them",
            action="Restore the file from a copy, or convert the raw data again.",
        )
    return _check_content(os.path.join(dataset.directory, shard.path), shard, sample)  # noqa: PTH118 - pathlib is slow


def _check_content(path: str, shard: Shard, sample: Iterable[_Entry]) -> FileState:
    """Compares records with their hashes, which a shard that was swapped for another does not have."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        state = file_state.told(os.fstat(descriptor))
        for entry in sample:
            stored = os.pread(descriptor, entry.length + CRC_BYTES, entry.offset + HEADER_BYTES)
            payload, checksum = stored[:-CRC_BYTES], stored[-CRC_BYTES:]
            # One that is damaged, not swapped, is reported when it is read.
            if is_sound(payload, checksum) and index.content_hashes([payload])[0] != entry.content_hash:
                raise InputError(
                    f"dataset file {path}",
                    received=f"a record {entry.ordinal:,} that is sound, but not the one that was published",
                    expected=f"the shard with SHA-256 {shard.sha256[:12]}…",
                    action="It was modified or swapped: restore it from a copy, or convert the data again.",
                )
        return state
    finally:
        os.close(descriptor)
