"""What a model predicts of items and of tokens that knows only how often each occurs."""

import numpy as np


def popularity(
    labels: np.ndarray, weights: np.ndarray | None, *, items: int, shares: np.ndarray | None
) -> np.ndarray:
    """Ranks the chosen items, int64 [n], by how often each is chosen: float64 [n, 3], as Scored has them.

    Args:
      shares: of training's rows, [items]; None: those of the other rows here. The shares of all rows here
        would know what was chosen, and no model could beat them where items are many.
    """
    if shares is None:
        own, total, counts = _of_others(labels, np.ones(len(labels)) if weights is None else weights, items)
        logs = np.log((own + 1) / (total + items))
        itself = 1  # with its own row, the item has more than `own`
    else:
        counts, itself = np.asarray(shares, np.float64), 0
        own = counts[labels]
        logs = np.log(np.maximum(own, np.finfo(np.float64).tiny))
    ordered = np.sort(counts)
    first, end = (np.searchsorted(ordered, own, side) for side in ("left", "right"))
    return np.stack([logs, items - end - itself, end - first - (1 - itself)], axis=1)


def frequencies(labels: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Predicts tokens, int64 [n, length], by how often each occurs elsewhere here: float64 [n, length, 2], as
    Scored has them.
    """
    is_predicted = labels >= 0
    tokens = labels[is_predicted]
    of_rows = np.ones(len(labels)) if weights is None else weights / is_predicted.sum(axis=1)
    each = np.broadcast_to(of_rows[:, None], labels.shape)[is_predicted]
    vocabulary = int(tokens.max()) + 1
    own, total, counts = _of_others(tokens, each / each.max(), vocabulary)
    best = np.where(tokens == counts.argmax(), own, counts.max())
    found = np.zeros((*labels.shape, 2))
    found[is_predicted] = np.log((np.stack([own, best], axis=1) + 1) / (total + vocabulary)[:, None])
    return found


def _of_others(
    labels: np.ndarray, weights: np.ndarray, number: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns for each row what the other rows of its label weigh, and all others; and each label's weight.

    A label counts one row more than it has (P.-S. Laplace), so that no other one is impossible.
    """
    counts = np.bincount(labels, weights, number)
    return counts[labels] - weights, weights.sum() - weights, counts
