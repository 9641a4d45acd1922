"""Compares every record of a selection with its checksums and with its hash in the index.

Tells which records are damaged or modified, and where they are.

Standard library and numpy only.
"""

import concurrent.futures
import dataclasses
import functools
import itertools
import pathlib

import numpy as np
from tqdm import tqdm

from pipeline.data import index
from pipeline.data.framing import CRC_BYTES, FRAME_BYTES, HEADER_BYTES, header, masked_crc
from pipeline.data.selection import Selection
from pipeline.data.shards import Shards

PROGRESS_AFTER_S = 2.0
_READ_BYTES = 8 << 20  # 8 MiB
_FILES_AT_ONCE = 4  # reads overlap, checksums do not: they hold Python's lock


@dataclasses.dataclass(frozen=True, kw_only=True)
class DamagedRecord:
    """A record whose bytes are not those that were written."""

    dataset: str  # digest of its manifest
    file: str  # relative to the dataset
    ordinal: int  # in the file, from 0
    offset: int  # byte of the file at which its frame starts
    rows: int  # that it holds
    reason: str

    @property
    def place(self) -> tuple[str, str, int]:
        return self.dataset, self.file, self.ordinal

    def __str__(self) -> str:
        return f"{self.file}, record {self.ordinal:,} at byte {self.offset:,}: {self.reason}"


def damaged_records(selection: Selection) -> tuple[DamagedRecord, ...]:
    """Every damaged record that holds selected rows, in stored order; reads each such record once."""
    shards = selection.shards
    selected = selected_records(selection)
    ends = np.searchsorted(selected, shards.record_starts)
    of_shards = [selected[first:last] for first, last in itertools.pairwise(ends)]
    check = functools.partial(_damaged_in, shards)
    with concurrent.futures.ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        found = pool.map(check, range(len(of_shards)), of_shards)
        shown = tqdm(found, total=len(of_shards), desc="checking", unit="shard", delay=PROGRESS_AFTER_S)
        return tuple(
            _described(selection, shard, number, reason)
            for shard, damaged in enumerate(shown)
            for number, reason in damaged
        )


def selected_records(selection: Selection) -> np.ndarray:
    """int64 [n], ascending: numbers, over all shards, of the records that hold selected rows."""
    shards = selection.shards
    chosen = np.zeros(len(shards.offsets), bool)
    for first, last in selection.ranges:
        chosen[shards.record_of_row(first) : shards.record_of_row(last - 1) + 1] = True
    return np.flatnonzero(chosen)


def _damaged_in(shards: Shards, shard: int, numbers: np.ndarray) -> list[tuple[int, str]]:
    """(number, reason) of the damaged ones among the records with these numbers, all of one shard."""
    columns = (numbers, shards.offsets[numbers], shards.sizes[numbers], shards.hashes[numbers])
    places = zip(*(column.tolist() for column in columns), strict=True)
    damaged = []
    with pathlib.Path(shards.paths[shard]).open("rb", buffering=_READ_BYTES) as file:
        for number, offset, size, content_hash in places:
            file.seek(offset)
            if reason := _problem(file.read(size), size, content_hash):
                damaged.append((number, reason))
    return damaged


def _problem(frame: bytes, size: int, content_hash: int) -> str:
    """What is wrong with the frame, of which the index tells size and hash; empty if nothing is."""
    if len(frame) < size:
        return f"the file ends {size - len(frame):,} bytes too early"
    length = size - FRAME_BYTES
    if frame[:HEADER_BYTES] != header(length):
        return f"its length is not {length:,}, or the length's checksum is wrong"
    payload = frame[HEADER_BYTES:-CRC_BYTES]
    if frame[-CRC_BYTES:] != masked_crc(payload):
        return f"the checksum of its {length:,} bytes is wrong"
    if index.content_hashes([payload])[0] != content_hash:
        return f"its {length:,} bytes are sound, but not those that were published"
    return ""


def _described(selection: Selection, shard: int, number: int, reason: str) -> DamagedRecord:
    shards = selection.shards
    first, last = shards.rows_of_record(number)
    return DamagedRecord(
        dataset=selection.dataset.manifest.digest,
        file=shards.names[shard],
        ordinal=number - int(shards.record_starts[shard]),
        offset=int(shards.offsets[number]),
        rows=last - first,
        reason=reason,
    )
