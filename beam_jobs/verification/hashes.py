"""Comparing sets of records by their hashes, as sorted numpy arrays: 100 million rows take under 4 GB.

Hashes have 64 bits: among n records of one dataset and m of another, about n·m / 2^64 pairs collide by chance
(0.0005 for 100 million each).
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

MIXED = -1  # records of one hash are in several splits


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counted:
    """Distinct hashes of a dataset, sorted; all arrays are [distinct]."""

    hashes: np.ndarray  # uint64
    counts: np.ndarray  # int64
    first: np.ndarray  # int64, index of the first such record, counted through all splits
    split: np.ndarray  # int64, number of the split that they are in, or MIXED


def counted(splits: Mapping[str, np.ndarray]) -> Counted:
    """`splits` are the hashes of each split, uint64 [records]."""
    everything = np.concatenate([np.zeros(0, np.uint64), *splits.values()])
    where = np.repeat(np.arange(len(splits)), [len(hashes) for hashes in splits.values()])
    order = np.argsort(everything, kind="stable")
    hashes, starts, counts = np.unique(everything[order], return_index=True, return_counts=True)
    sorted_split = where[order]
    low = np.minimum.reduceat(sorted_split, starts) if len(starts) else starts
    high = np.maximum.reduceat(sorted_split, starts) if len(starts) else starts
    return Counted(hashes=hashes, counts=counts, first=order[starts], split=np.where(low == high, low, MIXED))


def surplus(of: Counted, over: Counted) -> np.ndarray:
    """How many records of each hash `of` has more than `over`, int64 [distinct]."""
    return np.maximum(0, of.counts - matched(of, over, over.counts, absent=0))


def matched(of: Counted, other: Counted, values: np.ndarray, *, absent: int) -> np.ndarray:
    """`values` of `other`'s hashes at the hashes that `of` has, [distinct of `of`]."""
    if not len(other.hashes):
        return np.full(len(of.hashes), absent)
    position = np.minimum(np.searchsorted(other.hashes, of.hashes), len(other.hashes) - 1)
    return np.where(other.hashes[position] == of.hashes, values[position], absent)


def shared(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """int64 [found]: where in `right` hashes are that `left` has; both uint64 [records]."""
    return np.flatnonzero(np.isin(right, left))
