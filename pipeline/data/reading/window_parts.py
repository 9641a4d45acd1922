"""The parts that windows of a selection are made of, where single records are too small to fetch one by one.

A window part is a run of consecutive records that is read at once: some 128 KiB of them, or one block. Parts
are permuted over the whole epoch, and the rows of a window, which is some parts, are permuted together.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pipeline.data.dataset.selection import Selection

PART_BYTES = 128 << 10  # 128 KiB: below, opening a file costs more than reading it
PART_RECORDS = 256
WINDOW_ROWS = 1 << 14
WINDOW_BYTES = 4 << 20  # 4 MiB: a window that the processor's cache holds costs half as much to permute
WINDOW_PARTS = 4  # at least


class _Part(NamedTuple):
    first_record: int
    first_row: int
    records: int
    skipped_rows: int
    rows: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowParts:
    """The n parts of a selection, in stored order: int64 [n] each."""

    first_record: np.ndarray  # number over all shards
    first_row: np.ndarray  # the first that is selected, by its number over all shards
    records: np.ndarray  # how many, from there on; they may go on in the next shard
    skipped_rows: np.ndarray  # rows of the first record that come before the selection
    rows: np.ndarray  # selected rows, which follow the skipped ones
    in_window: int  # parts whose rows are permuted together


def cut(selection: Selection) -> WindowParts:
    """Cuts a selection into parts, and says how many of them make a window."""
    shards = selection.shards
    if shards.rows_in_record > 1:
        size, parts = 1, _blocks(selection)
    else:
        size = int(np.clip(PART_BYTES / shards.mean_bytes, 1, PART_RECORDS))
        parts = _runs(selection, size)
    columns = _Part(*np.array(list(parts), np.int64).T)
    wanted = WINDOW_ROWS / (size * shards.rows_in_record)
    cached = WINDOW_BYTES / (size * shards.mean_bytes)
    count = len(columns.rows)
    windows = math.ceil(count / int(max(WINDOW_PARTS, min(wanted, cached))))
    # Divided again, so that the last window is about as large as the others.
    return WindowParts(**columns._asdict(), in_window=math.ceil(count / windows))


def _runs(selection: Selection, size: int) -> Iterator[_Part]:
    """Runs of `size` records, of which the last one of a range may be shorter."""
    for first, last in selection.ranges:
        for start in range(first, last, size):
            count = min(size, last - start)
            yield _Part(first_record=start, first_row=start, records=count, skipped_rows=0, rows=count)


def _blocks(selection: Selection) -> Iterator[_Part]:
    """One part for each block that holds selected rows."""
    shards = selection.shards
    for first, last in selection.ranges:
        row = first
        while row < last:
            block = shards.record_of_row(row)
            start, end = shards.rows_of_record(block)
            end = min(end, last)
            yield _Part(
                first_record=block, first_row=row, records=1, skipped_rows=row - start, rows=end - row
            )
            row = end
