"""Compares every record of a selection with its checksums and with its hash in the index.

So damaged and modified records are found and located. Standard library and numpy only.
"""

import concurrent.futures
import dataclasses
import functools
import itertools
import pathlib

import numpy as np
from tqdm import tqdm

from pipeline.data.dataset import index, tfrecord
from pipeline.data.dataset.record_table import Shards
from pipeline.data.dataset.selection import Selection

_PROGRESS_AFTER_S = 2.0
_READ_BYTES = 8 << 20  # 8 MiB
_FILES_AT_ONCE = 4  # reads overlap; checksums do not, as they hold Python's lock


@dataclasses.dataclass(frozen=True, kw_only=True)
class DamagedRecord:
    """A record whose bytes are not those that were written."""

    dataset: str  # digest of its manifest
    file: str  # relative to the dataset
    ordinal: int  # in the file, from 0
    offset: int  # byte of the file at which its frame starts
    rows: int  # how many it holds
    reason: str
    span: str = ""  # directory of the dataset where several are read as one, relative to that of all

    @property
    def key(self) -> tuple[str, str, int]:
        """Which record it is, whatever is wrong with it, and wherever its dataset lies now."""
        return self.dataset, self.file, self.ordinal

    def __str__(self) -> str:
        file = pathlib.PurePath(self.span, self.file)
        return f"{file}, record {self.ordinal:,} at byte {self.offset:,}: {self.reason}"


def damaged_records(selection: Selection) -> tuple[DamagedRecord, ...]:
    """Every damaged record that holds selected rows, in stored order; reads all records once."""
    shards = selection.shards
    selected = selected_records(selection)
    ends = np.searchsorted(selected, shards.record_starts)
    of_shards = [selected[first:last] for first, last in itertools.pairwise(ends)]
    check = functools.partial(_damaged_in, shards)
    with concurrent.futures.ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        found = pool.map(check, range(len(of_shards)), of_shards)
        shown = tqdm(found, total=len(of_shards), desc="checking", unit="shard", delay=_PROGRESS_AFTER_S)
        return tuple(
            described(selection, shard, number, reason)
            for shard, damaged in enumerate(shown)
            for number, reason in damaged
        )


def selected_records(selection: Selection) -> np.ndarray:
    """Numbers over all shards of the records that hold selected rows: int64 [n], ascending."""
    shards = selection.shards
    chosen = np.zeros(len(shards.offsets), bool)
    for first, last in selection.ranges:
        chosen[shards.record_of_row(first) : shards.record_of_row(last - 1) + 1] = True
    return np.flatnonzero(chosen)


def _damaged_in(shards: Shards, shard: int, numbers: np.ndarray) -> list[tuple[int, str]]:
    """(number, reason) of each damaged record among those of these numbers, int64 [n], all of one shard."""
    columns = (numbers, shards.offsets[numbers], shards.sizes[numbers], shards.hashes[numbers])
    records = zip(*(column.tolist() for column in columns), strict=True)
    damaged = []
    with pathlib.Path(shards.paths[shard]).open("rb", buffering=_READ_BYTES) as file:
        for number, offset, size, content_hash in records:
            file.seek(offset)
            if reason := problem(file.read(size), size=size, content_hash=content_hash):
                damaged.append((number, reason))
    return damaged


def problem(frame: bytes, *, size: int, content_hash: int) -> str:
    """What is wrong with a frame of this size and content hash; empty if nothing is."""
    length = size - tfrecord.FRAME_BYTES
    if found := tfrecord.problem(frame, length=length):
        return found
    payload = frame[tfrecord.HEADER_BYTES : -tfrecord.CRC_BYTES]
    if index.content_hashes([payload])[0] != content_hash:
        return f"its {length:,} bytes are sound, but not those that were published"
    return ""


def described(selection: Selection, shard: int, number: int, reason: str) -> DamagedRecord:
    """The record of this number over all shards, and what is wrong with it."""
    shards = selection.shards
    first, last = shards.rows_of_record(number)
    dataset, file = selection.dataset.owner(shards.names[shard])
    return DamagedRecord(
        dataset=dataset.manifest.digest,
        file=file,
        ordinal=number - int(shards.record_starts[shard]),
        offset=int(shards.offsets[number]),
        rows=last - first,
        reason=reason,
        span=selection.dataset.span(dataset),
    )
