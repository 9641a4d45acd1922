"""Comparing versions as multisets of hashes."""

import numpy as np

from pipeline.data.dataset import row_hashes


def counted(**splits: list[int]) -> row_hashes.Counted:
    return row_hashes.count_rows({name: np.array(values, np.uint64) for name, values in splits.items()})


def test_distinct_hashes_with_count_place_and_split():
    found = counted(train=[9, 2, 9], test=[5, 2])
    assert found.hashes.tolist() == [2, 5, 9]
    assert found.counts.tolist() == [2, 1, 2]
    assert found.first.tolist() == [1, 3, 0]
    assert found.split.tolist() == [row_hashes.MIXED, 1, 0]


def test_surplus_counts_copies():
    new, old = counted(train=[1, 1, 1, 2]), counted(train=[1, 3])
    assert row_hashes.surplus_rows(new, old).tolist() == [2, 1]
    assert row_hashes.surplus_rows(old, new).tolist() == [0, 1]


def test_nothing_at_all():
    none, some = counted(train=[]), counted(train=[1])
    assert row_hashes.surplus_rows(some, none).tolist() == [1]
    assert row_hashes.surplus_rows(none, some).tolist() == []


def test_shared():
    assert row_hashes.shared_rows(np.array([1, 2]), np.array([3, 2, 2])).tolist() == [1, 2]
