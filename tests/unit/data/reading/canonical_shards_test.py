"""Canonical shards: their segments, their units one after the other, and how large units are."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.reading import order
from pipeline.data.reading.canonical_shards import (
    CanonicalShards,
    Segments,
    UnitSize,
    UnitStart,
    all_canonical_shards,
    group_size,
    unit_size,
    unit_starts,
)
from pipeline.data.reading.window_parts import MOST_BYTES, WindowParts
from tests.shared.matrix import quick_cases

PARTS = [4, 4, 2, 4, 4, 1, 4]  # rows of each, in the order of the epoch: 23
STARTS = np.cumsum([0, *PARTS])
CUTS = [(23,), (8, 15), (6, 0, 17), (5, 1, 1, 9, 7), (1, 2, 20)]  # rows of each shard's segment


def made(sizes: tuple[int, ...]) -> tuple[Segments, np.ndarray]:
    begins = np.cumsum([0, *sizes[:-1]])
    ends, *shards = (tf.constant(each, tf.int64) for each in (STARTS[1:], begins, sizes))
    return Segments.of(ends, *shards), begins


def rows_of(segments: Segments, first: np.ndarray, end: np.ndarray) -> list[int]:
    """The rows of the ranges of all shards, [first, end) of each."""
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


# Units of shards one after the other: all of an epoch, then those of the next, from any position on.
COUNTS = [4, 4, 4, 4, 4, 3]  # rows of each part
UNIT_ROWS, BATCH, SEED = sum(COUNTS), 2, 5
UNIT = UnitSize(window_rows=4, windows=2)


def places(*, shards: int, begin: int, count: int) -> list[UnitStart]:
    found = unit_starts(
        tf.constant(COUNTS, tf.int64),
        CanonicalShards(global_batch=BATCH, count=shards, first=0, end=shards),
        rows=UNIT_ROWS,
        seed=SEED,
        begin=tf.constant(begin, tf.int64),
        unit=UNIT,
    )
    return list(found.take(count).as_numpy_iterator())


@pytest.mark.parametrize(("shards", "units"), [(1, 3), (2, 2)])
def test_an_epoch_has_as_many_units_as_hold_its_rows(shards: int, units: int):
    found = places(shards=shards, begin=0, count=3 * units)
    assert [place.epoch for place in found] == [0] * units + [1] * units + [2] * units
    assert [place.left for place in found] == 3 * list(range(units, 0, -1))
    for number, place in enumerate(found):
        assert place.window.tolist() == [number % units * UNIT.windows] * shards


def test_each_epoch_has_its_own_order_of_parts_and_its_own_rows():
    for place in places(shards=2, begin=0, count=6):
        expected = order.shuffled_parts(len(COUNTS), seed=SEED, epoch=tf.constant(place.epoch, tf.int64))
        np.testing.assert_array_equal(place.order_of_parts, expected)
        np.testing.assert_array_equal(
            place.segments.starts, np.cumsum([0, *np.take(COUNTS, place.order_of_parts)])
        )
        # Of every two positions the first is one shard's, the second the other's.
        before = np.arange(place.epoch * UNIT_ROWS)
        assert place.begins.tolist() == [(before % 2 == 0).sum(), (before % 2 == 1).sum()]


@pytest.mark.parametrize("begin", quick_cases([0, 8, 16, 22, 24, 230], [22, 230]))
def test_reading_begins_at_the_window_of_the_position(begin: int):
    [first] = places(shards=1, begin=begin, count=1)
    epoch, row = divmod(begin, UNIT_ROWS)
    assert first.epoch == epoch
    begins = first.segments.starts[:-1]  # of the parts; a part is read where it begins
    window, last = begins[begins <= row].max() // UNIT.window_rows, begins.max() // UNIT.window_rows
    assert first.window.tolist() == [window]
    assert first.left == -(-(last + 1 - window) // UNIT.windows)


@pytest.mark.parametrize(
    "parts", quick_cases([1_323, 2_401], [1_323])
)  # of these, halves are multiples of 49: see `quotient`
def test_every_part_comes_once_in_an_epoch(parts: int):
    shards, counts = CanonicalShards(global_batch=2, count=1, first=0, end=1), tf.ones([parts], tf.int64)
    begin, unit = tf.constant(0, tf.int64), UnitSize(window_rows=4, windows=1)
    units = unit_starts(counts, shards, rows=parts, seed=SEED, begin=begin, unit=unit)
    [first] = units.take(1).as_numpy_iterator()
    np.testing.assert_array_equal(np.sort(first.order_of_parts), np.arange(parts))


def window_parts(*, count: int, rows: int, row_bytes: int, in_windows: int) -> WindowParts:
    numbers = np.arange(count)
    return WindowParts(
        first_record=numbers,
        first_row=numbers * rows,
        records=np.ones_like(numbers),
        skipped_rows=np.zeros_like(numbers),
        rows=np.full(count, rows),
        size=rows,
        bytes=float(rows * row_bytes),
        in_windows=in_windows,
    )


BLOCKS = window_parts(count=4096, rows=1024, row_bytes=168, in_windows=24)


@pytest.mark.parametrize("batch", [64, 256, 16_384])
def test_windows_of_whole_batches_are_read_one_at_a_time(batch: int) -> None:
    shards = all_canonical_shards(BLOCKS, global_batch=batch)
    assert unit_size(BLOCKS, shards, is_of_blocks=True) == (1024, 1)
    assert shards.count == 64 and 1024 % shards.size == 0


def test_a_unit_holds_eight_batches_where_windows_do_not_end_with_them() -> None:
    shards = all_canonical_shards(BLOCKS, global_batch=10_000)  # 16 shards of 625
    rows, windows = unit_size(BLOCKS, shards, is_of_blocks=True)
    assert windows * rows >= 8 * shards.size > (windows - 1) * rows


def test_of_records_it_holds_two() -> None:
    records = window_parts(count=16_384, rows=256, row_bytes=300, in_windows=54)
    shards = all_canonical_shards(records, global_batch=10_000)
    rows, windows = unit_size(records, shards, is_of_blocks=False)
    assert windows * rows >= 2 * shards.size > (windows - 1) * rows


def test_and_no_more_of_them_than_the_open_windows_may_take() -> None:
    large = window_parts(count=4096, rows=1024, row_bytes=1024, in_windows=4)
    shards = all_canonical_shards(large, global_batch=10_000)
    rows, windows = unit_size(large, shards, is_of_blocks=True)
    assert rows * windows < 8 * shards.size
    assert windows * rows * 1024 * shards.here <= MOST_BYTES


def test_a_unit_holds_a_batch_at_least() -> None:
    shards = all_canonical_shards(BLOCKS, global_batch=1 << 20)
    rows, windows = unit_size(BLOCKS, shards, is_of_blocks=True)
    assert rows * windows >= shards.size


@pytest.mark.parametrize(
    ("shards", "of_each", "together"),
    [
        (64, 1, 32),  # 64 blocks, of which windows hold 24
        (16, 5, 8),  # 80 blocks
        (8, 1, 8),
        (1, 24, 1),
        (15, 4, 5),  # two groups would be of 8 and 7
        (17, 4, 9),  # no even ones, unless each shard were read alone
    ],
)
def test_groups_of_blocks_are_of_one_size_where_that_can_be(shards: int, of_each: int, together: int) -> None:
    assert group_size(shards, parts=of_each, in_windows=24, is_of_blocks=True) == together


def test_strings_are_read_all_at_once() -> None:
    assert group_size(64, parts=8, in_windows=4, is_of_blocks=False) == 64
