"""How well an order mixes what is stored; an order tells where each row of an epoch, in turn, is stored."""

import numpy as np

PARTS = 64  # of the stored data


def spread(order: np.ndarray, *, batch: int) -> float:
    """How unevenly batches draw from 64 equal parts of the stored data; 1 as by chance.

    Mean of all whole batches of Pearson's chi-squared over its degrees of freedom. If the data were stored
    class by class, this is by how much the batches' classes would vary too much, in variance.

    Args:
      order: int [rows], a permutation.
    """
    batches = len(order) // batch
    parts = order[: batches * batch] * PARTS // len(order)
    cells = np.repeat(np.arange(batches), batch) * PARTS + parts
    counts = np.bincount(cells, minlength=batches * PARTS).reshape(batches, PARTS)
    expected = batch / PARTS
    return float(((counts - expected) ** 2 / expected).sum(axis=1).mean() / (PARTS - 1))


def again(first: np.ndarray, second: np.ndarray, *, batch: int) -> float:
    """How often two rows of one batch of an epoch meet in a batch of the next one; 1 as by chance.

    Args:
      first, second: int [rows], permutations: the orders of the two epochs.
    """
    rows = len(first)
    batch_of_place = np.arange(rows) // batch
    batch_in_second = np.empty(rows, np.int64)
    batch_in_second[second] = batch_of_place
    both = batch_of_place * (batch_of_place[-1] + 1) + batch_in_second[first]
    _, together = np.unique(both, return_counts=True)
    by_chance = rows * (batch - 1) * (batch - 1) / (rows - 1)
    return float((together * (together - 1)).sum() / by_chance)
