"""The parts of which windows are made, for records that are too small to fetch one by one. No TensorFlow.

Parts are permuted over the epoch, and rows inside a window of some parts. `windows.py` reads them with
TensorFlow, `positions.py` says with NumPy which row stands where.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from pipeline.data.dataset.selection import Selection
from pipeline.data.dataset.shards import Shards

PART_BYTES = 128 << 10  # 128 KiB: below this, opening a file costs more than reading it
PART_RECORDS = 256
WINDOW_ROWS = 1 << 14
WINDOW_BYTES = 4 << 20  # 4 MiB: a window that fits into the processor's cache takes half the time to permute
WINDOW_PARTS = 4  # parts of a window, at least

MOST_CANONICAL_SHARDS = 64
# Two canonical shards may share the part where their segments meet, and each reads it.
LEAST_PARTS = 16  # parts of a shard
MOST_BYTES = 32 << 20  # 32 MiB of windows: every shard has one open


class _Parts(NamedTuple):
    first_record: np.ndarray
    first_row: np.ndarray
    records: np.ndarray
    skipped_rows: np.ndarray
    rows: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowParts:
    """The n parts of a selection, in stored order: int64 [n] each.

    A part is a run of consecutive records that is read at once: some 128 KiB of them, or one block. Parts are
    permuted over the whole epoch. The rows of a window, which is some parts of a shard, are permuted
    together.
    """

    first_record: np.ndarray  # number of each part's first record, over all files
    first_row: np.ndarray  # number of the first selected row, over all files
    records: np.ndarray  # how many records, from there on; they may go on in the next file
    skipped_rows: np.ndarray  # rows of the first record that come before the selection
    rows: np.ndarray  # selected rows, which follow the skipped ones
    size: int  # rows of a whole part
    bytes: float  # bytes of a whole part
    in_windows: int  # parts that the windows of all shards hold together

    def in_window(self, shards: int) -> int:
        """The number of parts whose rows are permuted together, with so many canonical shards."""
        of_shard = math.ceil(len(self.rows) / shards)
        windows = math.ceil(of_shard / max(1, round(self.in_windows / shards)))
        # This divides again, so that the last window is about as large as the others.
        return math.ceil(of_shard / windows)

    def window_rows(self, shards: int) -> int:
        """The number of rows of a whole window, with so many canonical shards."""
        return self.in_window(shards) * self.size

    def canonical_shards(self, global_batch: int, *, most: int = MOST_CANONICAL_SHARDS) -> int:
        """The largest number of canonical shards, a power of two, that divides the global batch and leaves
        enough parts for each.
        """
        count = math.gcd(global_batch, most)
        while count > 1 and (len(self.rows) < LEAST_PARTS * count or self.bytes * count > MOST_BYTES):
            count //= 2
        return count


def cut_windows(selection: Selection) -> WindowParts:
    """Cuts a selection into parts, and says how many of them are permuted at a time."""
    shards = selection.shards
    if shards.rows_in_record > 1:
        size, columns = 1, _blocks(selection)
    else:
        size = int(np.clip(PART_BYTES / shards.mean_bytes, 1, PART_RECORDS))
        columns = _runs(selection, size)
    rows, part_bytes = size * shards.rows_in_record, size * shards.mean_bytes
    in_windows = max(WINDOW_PARTS, min(WINDOW_ROWS / rows, WINDOW_BYTES / part_bytes))
    return WindowParts(**columns._asdict(), size=rows, bytes=part_bytes, in_windows=int(in_windows))


def _runs(selection: Selection, size: int) -> _Parts:
    """Runs of `size` records, of which the last one of a range may be shorter: int64 [n] each."""
    firsts, lasts = np.array(selection.ranges, np.int64).T
    start, last = _every(size, firsts, lasts)
    count = np.minimum(size, last - start)
    return _Parts(start, start, records=count, skipped_rows=np.zeros_like(start), rows=count)


def _blocks(selection: Selection) -> _Parts:
    """One part for each block that holds selected rows: int64 [n] each."""
    shards = selection.shards
    firsts, lasts = np.array(selection.ranges, np.int64).T
    first_blocks, last_blocks = _blocks_of_rows(shards, firsts), _blocks_of_rows(shards, lasts - 1)
    block, _ = _every(1, first_blocks, last_blocks + 1)
    of_range = np.repeat(np.arange(len(firsts)), last_blocks + 1 - first_blocks)
    shard = np.searchsorted(shards.record_starts, block, side="right") - 1
    start = shards.row_starts[shard] + (block - shards.record_starts[shard]) * shards.rows_in_record
    end = np.minimum(start + shards.rows_in_record, shards.row_starts[shard + 1])
    row = np.maximum(start, firsts[of_range])
    return _Parts(
        first_record=block,
        first_row=row,
        records=np.ones_like(block),
        skipped_rows=row - start,
        rows=np.minimum(end, lasts[of_range]) - row,
    )


def _every(size: int, firsts: np.ndarray, lasts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every `size`-th number of each range, starting at its first, and the end of that range: int64 [n]
    each.
    """
    counts = -((firsts - lasts) // size)
    number_in_range = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(firsts, counts) + number_in_range * size, np.repeat(lasts, counts)


def _blocks_of_rows(shards: Shards, rows: np.ndarray) -> np.ndarray:
    """The blocks that hold rows, int64 [n], both numbered over all files."""
    shard = np.searchsorted(shards.row_starts, rows, side="right") - 1
    return shards.record_starts[shard] + (rows - shards.row_starts[shard]) // shards.rows_in_record
