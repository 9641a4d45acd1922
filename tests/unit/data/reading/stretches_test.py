"""Stretches of lanes, beside a plain list of all rows: each once, whole parts first, windows end to end."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.reading.canonical_shards import Stretches

PARTS = [4, 4, 2, 4, 4, 1, 4]  # rows of each, in the order of the epoch: 23
STARTS = np.cumsum([0, *PARTS])
CUTS = [(23,), (8, 15), (6, 0, 17), (5, 1, 1, 9, 7), (1, 2, 20)]  # rows of each lane's stretch


def made(sizes: tuple[int, ...]) -> tuple[Stretches, np.ndarray]:
    begins = np.cumsum([0, *sizes[:-1]])
    ends, *lanes = (tf.constant(each, tf.int64) for each in (STARTS[1:], begins, sizes))
    return Stretches.of(ends, *lanes), begins


def rows_of(stretches: Stretches, first: np.ndarray, end: np.ndarray) -> list[int]:
    """The rows of the slots of all lanes, each lane's from `first` to before `end`."""
    slots = stretches.slots(tf.constant(first, tf.int64), tf.constant(end, tf.int64))
    found = zip(*(each.numpy() for each in slots), strict=True)
    return [
        row for part, skipped, n in found for row in range(STARTS[part] + skipped, STARTS[part] + skipped + n)
    ]


@pytest.mark.parametrize("sizes", CUTS)
def test_a_lane_reads_the_rows_of_its_stretch_from_the_first_whole_part_on(sizes):
    stretches, begins = made(sizes)
    all_slots = stretches.slots_before(tf.constant([[100]] * len(sizes), tf.int64))[:, 0]
    expected = []
    for begin, size in zip(begins, sizes, strict=True):
        here = list(range(begin, begin + size))
        turn = next((i for i, row in enumerate(here) if row in STARTS), size)
        expected += here[turn:] + here[:turn]
    assert rows_of(stretches, np.zeros(len(sizes)), all_slots.numpy()) == expected


@pytest.mark.parametrize("sizes", CUTS)
@pytest.mark.parametrize("window_rows", [4, 7])
def test_windows_follow_each_other_and_hold_the_parts_that_begin_in_them(sizes, window_rows: int):
    stretches, _ = made(sizes)
    bounds = tf.constant([[window_rows * window for window in range(9)]] * len(sizes), tf.int64)
    slots = stretches.slots_before(bounds)
    before = stretches.rows_before(slots).numpy()
    assert before[:, -1].tolist() == list(sizes)
    for window in range(8):
        first, end = slots[:, window].numpy(), slots[:, window + 1].numpy()
        assert len(rows_of(stretches, first, end)) == (before[:, window + 1] - before[:, window]).sum()
    begins = before[:, :-1][np.diff(slots, axis=1) > 0]  # of a window's first part
    assert (begins // window_rows == np.nonzero(np.diff(slots, axis=1) > 0)[1]).all()


def test_any_row_is_found_in_its_slot():
    stretches, _ = made((6, 0, 17))
    for row in range(17):
        slot = stretches.slot_of(tf.constant([min(row, 5), 0, row], tf.int64))
        before = stretches.rows_before(slot[:, None])[:, 0].numpy()
        after = stretches.rows_before(slot[:, None] + 1)[:, 0].numpy()
        assert before[2] <= row < after[2] and before[0] <= min(row, 5) < after[0]
