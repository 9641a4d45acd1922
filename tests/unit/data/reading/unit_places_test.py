"""Units of shards one after the other: all of an epoch, then those of the next, from any position on."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.reading import order
from pipeline.data.reading.canonical_shards import CanonicalShards, UnitSize, UnitStart, unit_starts

COUNTS = [4, 4, 4, 4, 4, 3]  # rows of each part
ROWS, BATCH, SEED = sum(COUNTS), 2, 5
UNIT = UnitSize(window_rows=4, windows=2)


def places(*, shards: int, begin: int, count: int) -> list[UnitStart]:
    found = unit_starts(
        tf.constant(COUNTS, tf.int64),
        CanonicalShards(global_batch=BATCH, count=shards, first=0, end=shards),
        rows=ROWS,
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
        before = np.arange(place.epoch * ROWS)
        assert place.begins.tolist() == [(before % 2 == 0).sum(), (before % 2 == 1).sum()]


@pytest.mark.parametrize("begin", [0, 8, 16, 22, 24, 230])
def test_reading_begins_at_the_window_of_the_position(begin: int):
    [first] = places(shards=1, begin=begin, count=1)
    epoch, row = divmod(begin, ROWS)
    assert first.epoch == epoch
    begins = first.segments.starts[:-1]  # of the parts; a part is read where it begins
    window, last = begins[begins <= row].max() // UNIT.window_rows, begins.max() // UNIT.window_rows
    assert first.window.tolist() == [window]
    assert first.left == -(-(last + 1 - window) // UNIT.windows)


@pytest.mark.parametrize("parts", [1_323, 2_401])  # of these, halves are multiples of 49: see `quotient`
def test_every_part_comes_once_in_an_epoch(parts: int):
    shards, counts = CanonicalShards(global_batch=2, count=1, first=0, end=1), tf.ones([parts], tf.int64)
    begin, unit = tf.constant(0, tf.int64), UnitSize(window_rows=4, windows=1)
    units = unit_starts(counts, shards, rows=parts, seed=SEED, begin=begin, unit=unit)
    [first] = units.take(1).as_numpy_iterator()
    np.testing.assert_array_equal(np.sort(first.order_of_parts), np.arange(parts))
