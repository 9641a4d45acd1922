"""What orders are worth: metrics of ranks. Standard library and numpy only.

Where scores are equal, their rows may stand in any order, and a metric is its mean over all of them: F.
McSherry and M. Najork, "Computing Information Retrieval Performance Measures Efficiently in the Presence of
Tied Scores" (2008).
"""

import numpy as np

# --- One chosen item among many: its rank decides. The numbers of ranks are from 1 on.


def recalled(ranks: np.ndarray, k: int) -> np.ndarray:
    """1 for the first `k` ranks, float64 [n]."""
    return (ranks <= k).astype(np.float64)


def reciprocal(ranks: np.ndarray) -> np.ndarray:
    return 1.0 / ranks


def discounted(ranks: np.ndarray, k: int) -> np.ndarray:
    """The NDCG of a single relevant item: rank i gives 1 / log2(i + 1), and nothing after the first `k`."""
    return np.where(ranks <= k, 1 / np.log2(ranks + 1), 0.0)


def sums_before(worth: np.ndarray) -> np.ndarray:
    """The sum over the ranks before each, from the worth of each rank, float64 [ranks] → [ranks + 1]."""
    return np.concatenate([[0.0], np.cumsum(worth)])


def mean_of_ties(before: np.ndarray, better: np.ndarray, equal: np.ndarray) -> np.ndarray:
    """The worth of each item, float64 [n]: the mean over the ranks that it may have.

    Args:
      before: see `sums_before`.
      better, equal: how many other items have a higher score, and how many the same, int64 [n] each.
    """
    return (before[better + equal + 1] - before[better]) / (equal + 1)


# --- Groups of rows, each with a relevance: their whole order counts.


class RankedGroups:
    """The rows of groups as one run of rows, best first within each group.

    A group without a relevant row counts 0, as in scikit-learn; LightGBM counts 1. A group with
    a score that is not a number has metrics that are none: such a row has no place.

    Args:
      labels: relevance, int [groups, length]; below 0 for what fills up a group.
      scores: float [groups, length].
    """

    def __init__(self, labels: np.ndarray, scores: np.ndarray) -> None:
        self._group, place = np.nonzero(labels >= 0)
        self._groups = len(labels)
        labels, scores = labels[self._group, place], scores[self._group, place]
        has_no_order = np.bincount(self._group, np.isnan(scores), self._groups) > 0
        self._unknown = np.where(has_no_order, np.nan, 0.0)  # is added to the metrics of groups
        order = np.lexsort((-scores, self._group))
        self._ranked, scores = labels[order], scores[order]
        is_first = np.diff(self._group, prepend=-1) != 0
        self._rank = np.arange(len(order)) - np.maximum.accumulate(
            np.where(is_first, np.arange(len(order)), 0)
        )
        # Rows of equal scores.
        self._ties = np.flatnonzero(is_first | (np.diff(scores, prepend=np.nan) != 0))
        self._sizes = np.diff(self._ties, append=len(order))
        gains = np.add.reduceat(np.exp2(self._ranked) - 1, self._ties) / self._sizes
        self._gains = np.repeat(gains, self._sizes)
        self._ideal = np.exp2(labels[np.lexsort((-labels, self._group))]) - 1

    def ndcg(self, k: int | None = None) -> np.ndarray:
        """NDCG of the first `k` rows of each group, or of all: float64 [groups].

        A relevance r gains 2^r - 1.
        """
        is_kept = True if k is None else self._rank < k
        discounts = np.where(is_kept, 1 / np.log2(self._rank + 2), 0.0)
        found, most = (self._by_group(each * discounts) for each in (self._gains, self._ideal))
        return np.divide(found, most, out=np.zeros(self._groups), where=most > 0) + self._unknown

    def _by_group(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self._group, values, self._groups)

    def reciprocal_ranks(self) -> np.ndarray:
        """1 / rank of the first relevant row of each group, float64 [groups]."""
        relevant = np.add.reduceat((self._ranked > 0).astype(np.int64), self._ties)
        with_any = np.flatnonzero(relevant)
        groups, first = np.unique(self._group[self._ties[with_any]], return_index=True)
        ties = with_any[first]
        before, sizes, relevant = self._rank[self._ties[ties]], self._sizes[ties], relevant[ties]
        found = np.zeros(self._groups)
        found[groups] = 1 / (before + 1)
        for at in np.flatnonzero(relevant < sizes):  # rows of equal scores that are not all relevant
            found[groups[at]] = _mean_reciprocal(int(before[at]), int(sizes[at]), relevant[at])
        return found + self._unknown


def _mean_reciprocal(before: int, size: int, relevant: int) -> float:
    """The mean of 1 / rank of the first relevant row, over all orders of `size` rows.

    `relevant` of these rows are relevant, and `before` other rows stand before them.
    """
    irrelevant = size - relevant
    at = np.arange(irrelevant + 1)  # irrelevant rows that come first
    # The chance that at least so many irrelevant rows come first: each of them is drawn without replacement.
    at_least = np.concatenate([[1.0], np.cumprod((irrelevant - at[:-1]) / (size - at[:-1])), [0.0]])
    return float(((at_least[:-1] - at_least[1:]) / (before + at + 1)).sum())
