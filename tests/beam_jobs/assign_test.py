"""Splits and shards depend on a row and nothing else."""

from fractions import Fraction

import numpy as np
import pyarrow as pa

from beam_jobs import assign

FRACTIONS = [Fraction("0.8"), Fraction("0.1"), Fraction("0.1")]


def ids(numbers: range) -> pa.Array:
    return pa.array([f"row {number}".encode() for number in numbers], pa.binary())


def test_splits_have_their_fractions():
    hashes = assign.hash_ids(ids(range(20_000)), purpose=assign.SPLIT)
    counts = np.bincount(assign.split_of(hashes, FRACTIONS))
    np.testing.assert_allclose(counts / 20_000, [0.8, 0.1, 0.1], atol=0.01)


def test_a_row_keeps_its_split_when_others_are_added():
    few = assign.split_of(assign.hash_ids(ids(range(100)), purpose=assign.SPLIT), FRACTIONS)
    more = assign.split_of(assign.hash_ids(ids(range(5000)), purpose=assign.SPLIT), FRACTIONS)
    np.testing.assert_array_equal(few, more[:100])


def test_the_hash_never_changes():
    # Published datasets depend on it: another value here moves every row of every dataset.
    [hashed] = assign.hash_ids(pa.array([b"row 0"]), purpose=assign.SPLIT)
    assert hashed == 6771443199646559948


def test_one_split_takes_all():
    hashes = np.array([0, 1 << 63, (1 << 64) - 1], np.uint64)
    assert assign.split_of(hashes, [Fraction(1)]).tolist() == [0, 0, 0]


def test_order_and_split_do_not_correlate():
    order = assign.hash_ids(ids(range(20_000)), purpose=assign.ORDER)
    split = assign.split_of(assign.hash_ids(ids(range(20_000)), purpose=assign.SPLIT), FRACTIONS)
    mean_position = [order[split == index].mean() / 2**64 for index in range(3)]
    np.testing.assert_allclose(mean_position, 0.5, atol=0.03)


def test_shards_are_contiguous_ranges_of_the_order():
    order = np.sort(assign.hash_ids(ids(range(1000)), purpose=assign.ORDER))
    shards = assign.shard_of(order, 7)
    assert np.all(np.diff(shards) >= 0)
    assert set(shards.tolist()) == set(range(7))


def test_ids_do_not_depend_on_the_order_of_columns():
    one = pa.record_batch({"a": [b"1", b"2"], "b": [b"x", b"y"]})
    other = pa.record_batch({"b": [b"x", b"y"], "a": [b"1", b"2"]})
    assert assign.row_ids(one, ()) == assign.row_ids(other, ())
    assert assign.row_ids(one, ("b",)).to_pylist() == [b"x", b"y"]
