"""Segments of shards, beside a plain list of all rows: each once, whole parts first, windows end to end."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.reading.canonical_shards import Segments

PARTS = [4, 4, 2, 4, 4, 1, 4]  # rows of each, in the order of the epoch: 23
STARTS = np.cumsum([0, *PARTS])
CUTS = [(23,), (8, 15), (6, 0, 17), (5, 1, 1, 9, 7), (1, 2, 20)]  # rows of each shard's segment


def made(sizes: tuple[int, ...]) -> tuple[Segments, np.ndarray]:
    begins = np.cumsum([0, *sizes[:-1]])
    ends, *shards = (tf.constant(each, tf.int64) for each in (STARTS[1:], begins, sizes))
    return Segments.of(ends, *shards), begins


def rows_of(segments: Segments, first: np.ndarray, end: np.ndarray) -> list[int]:
    """The rows of the ranges of all shards, each shard's from `first` to before `end`."""
    ranges = segments.ranges(tf.constant(first, tf.int64), tf.constant(end, tf.int64))
    found = zip(*(each.numpy() for each in ranges), strict=True)
    return [
        row for part, skipped, n in found for row in range(STARTS[part] + skipped, STARTS[part] + skipped + n)
    ]


@pytest.mark.parametrize("sizes", CUTS)
def test_a_lane_reads_the_rows_of_its_stretch_from_the_first_whole_part_on(sizes):
    segments, begins = made(sizes)
    all_slots = segments.ranges_before(tf.constant([[100]] * len(sizes), tf.int64))[:, 0]
    expected = []
    for begin, size in zip(begins, sizes, strict=True):
        here = list(range(begin, begin + size))
        turn = next((i for i, row in enumerate(here) if row in STARTS), size)
        expected += here[turn:] + here[:turn]
    assert rows_of(segments, np.zeros(len(sizes)), all_slots.numpy()) == expected


@pytest.mark.parametrize("sizes", CUTS)
@pytest.mark.parametrize("window_rows", [4, 7])
def test_windows_follow_each_other_and_hold_the_parts_that_begin_in_them(sizes, window_rows: int):
    segments, _ = made(sizes)
    bounds = tf.constant([[window_rows * window for window in range(9)]] * len(sizes), tf.int64)
    ranges = segments.ranges_before(bounds)
    before = segments.rows_before(ranges).numpy()
    assert before[:, -1].tolist() == list(sizes)
    for window in range(8):
        first, end = ranges[:, window].numpy(), ranges[:, window + 1].numpy()
        assert len(rows_of(segments, first, end)) == (before[:, window + 1] - before[:, window]).sum()
    begins = before[:, :-1][np.diff(ranges, axis=1) > 0]  # of a window's first part
    assert (begins // window_rows == np.nonzero(np.diff(ranges, axis=1) > 0)[1]).all()


def test_any_row_is_found_in_its_slot():
    segments, _ = made((6, 0, 17))
    for row in range(17):
        found = segments.range_of(tf.constant([min(row, 5), 0, row], tf.int64))
        before = segments.rows_before(found[:, None])[:, 0].numpy()
        after = segments.rows_before(found[:, None] + 1)[:, 0].numpy()
        assert before[2] <= row < after[2] and before[0] <= min(row, 5) < after[0]
