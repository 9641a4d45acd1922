"""The parts that windows of a selection are made of, where single records are too small to fetch one by one.

A window part is a run of consecutive records that is read at once: some 128 KiB of them, or one block. Parts
are permuted over the whole epoch, and the rows of a window, which is some parts of a lane, are permuted
together.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from pipeline.data.dataset.record_table import Shards
from pipeline.data.dataset.selection import Selection

PART_BYTES = 128 << 10  # 128 KiB: below, opening a file costs more than reading it
PART_RECORDS = 256
WINDOW_ROWS = 1 << 14
WINDOW_BYTES = 4 << 20  # 4 MiB: a window that the processor's cache holds costs half as much to permute
WINDOW_PARTS = 4  # at least


class _Part(NamedTuple):
    first_record: np.ndarray
    first_row: np.ndarray
    records: np.ndarray
    skipped_rows: np.ndarray
    rows: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowParts:
    """The n parts of a selection, in stored order: int64 [n] each."""

    first_record: np.ndarray  # number over all shards
    first_row: np.ndarray  # the first that is selected, by its number over all shards
    records: np.ndarray  # how many, from there on; they may go on in the next shard
    skipped_rows: np.ndarray  # rows of the first record that come before the selection
    rows: np.ndarray  # selected rows, which follow the skipped ones
    size: int  # rows of a whole part
    bytes: float  # of a whole part
    in_windows: int  # parts whose rows the windows of all lanes together hold

    def in_window(self, lanes: int) -> int:
        """Parts whose rows are permuted together, where there are so many lanes."""
        of_lane = math.ceil(len(self.rows) / lanes)
        windows = math.ceil(of_lane / max(1, round(self.in_windows / lanes)))
        # Divided again, so that the last window is about as large as the others.
        return math.ceil(of_lane / windows)


def cut(selection: Selection) -> WindowParts:
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


def _runs(selection: Selection, size: int) -> _Part:
    """Runs of `size` records, of which the last one of a range may be shorter: int64 [n] each."""
    firsts, lasts = np.array(selection.ranges, np.int64).T
    start, last = _every(size, firsts, lasts)
    count = np.minimum(size, last - start)
    return _Part(start, start, records=count, skipped_rows=np.zeros_like(start), rows=count)


def _blocks(selection: Selection) -> _Part:
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
    return _Part(
        first_record=block,
        first_row=row,
        records=np.ones_like(block),
        skipped_rows=row - start,
        rows=np.minimum(end, lasts[of_range]) - row,
    )


def _every(size: int, firsts: np.ndarray, lasts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every `size`-th number of each range from its first on, and the end of that range: int64 [n] each."""
    counts = -((firsts - lasts) // size)
    number_in_range = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(firsts, counts) + number_in_range * size, np.repeat(lasts, counts)


def _blocks_of_rows(shards: Shards, rows: np.ndarray) -> np.ndarray:
    """The blocks that hold rows, int64 [n], both numbered over all shards."""
    shard = np.searchsorted(shards.row_starts, rows, side="right") - 1
    return shards.record_starts[shard] + (rows - shards.row_starts[shard]) // shards.rows_in_record
