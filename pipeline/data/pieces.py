"""The pieces in which a selection is read where single records are too small to be fetched one by one.

A piece is a run of consecutive records that is read at once: some 128 KiB of them, or one block. Pieces are
permuted over the whole epoch, and the rows of some pieces together are permuted in a window.
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from pipeline.data.selection import Selection

PIECE_BYTES = 128 << 10  # 128 KiB: below, opening a file costs more than reading it
PIECE_RECORDS = 256
WINDOW_ROWS = 1 << 14
WINDOW_BYTES = 4 << 20  # 4 MiB: a window that the processor's cache holds costs half as much to permute
WINDOW_PIECES = 4  # at least


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pieces:
    """Of n pieces, int64 [n] each: where they are, and what of them counts."""

    first_record: np.ndarray  # number over all shards
    records: np.ndarray  # how many, from there on, over the ends of shards if need be
    skipped_rows: np.ndarray  # of the first record: those before the selection
    rows: np.ndarray  # behind the skipped ones: those selected
    in_window: int  # pieces whose rows are permuted together


def cut(selection: Selection) -> Pieces:
    shards = selection.shards
    if shards.rows_in_record > 1:
        found = np.array(list(_blocks(selection)), np.int64)
        size = 1
    else:
        size = int(np.clip(PIECE_BYTES / shards.mean_bytes, 1, PIECE_RECORDS))
        found = np.array(list(_runs(selection, size)), np.int64)
    wanted = WINDOW_ROWS / (size * shards.rows_in_record)
    cached = WINDOW_BYTES / (size * shards.mean_bytes)
    windows = math.ceil(len(found) / int(max(WINDOW_PIECES, min(wanted, cached))))
    return Pieces(
        first_record=found[:, 0],
        records=found[:, 1],
        skipped_rows=found[:, 2],
        rows=found[:, 3],
        in_window=math.ceil(len(found) / windows),  # so that the last window is about as large as the others
    )


def _runs(selection: Selection, size: int) -> Iterator[tuple[int, int, int, int]]:
    for first, last in selection.ranges:
        for start in range(first, last, size):
            count = min(size, last - start)
            yield start, count, 0, count


def _blocks(selection: Selection) -> Iterator[tuple[int, int, int, int]]:
    """One piece a block that holds selected rows."""
    shards = selection.shards
    for first, last in selection.ranges:
        row = first
        while row < last:
            block = shards.record_of_row(row)
            start, end = shards.rows_of_record(block)
            end = min(end, last)
            yield block, 1, row - start, end - row
            row = end
