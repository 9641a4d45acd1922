"""Finds rows of a holdout that are copies of one row: copies add no evidence."""

from collections.abc import Iterator, Sequence

import numpy as np

# Low bits of a float32: a row's place in its batch changes the last one or two of a prediction.
_ROUNDED_BITS = 6


def find_copies(
    labels: np.ndarray, beside: Sequence[np.ndarray], *, content: np.ndarray | None = None
) -> np.ndarray | None:
    """Numbers the rows, int64 [n], so that copies have the same number; None where there are no copies.

    Copies are rows of the same label and the same content. Rows of few columns with few values repeat by
    nature: the same predictions then come with other labels too. Each of these rows counts; but they count
    once if the whole holdout is repeated.

    Args:
      labels: [n] or [n, answers], numbers.
      beside: what else tells rows apart, [n] or [n, …] each: predictions of every model, weights, texts.
      content: [n], integers that are equal where rows are, with their labels; None: only `beside` is known.
        Then rows that every model is certain of are no copies: many rows have a prediction of 0 or 1.
    """
    predicted = _mix(part for array in beside for part in _parts(array))
    if content is None:
        is_certain = np.logical_and.reduce([_is_certain(array) for array in beside])
        content = np.where(is_certain, np.arange(len(labels), dtype=np.uint64), predicted)
    label = _mixed_label(np.asarray(labels, np.float64))
    _, first, row, counts = np.unique(
        _mix([np.asarray(content).astype(np.uint64), label]),
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    group = np.unique(predicted, return_inverse=True)[1]
    _, pairs = np.unique(_mix([predicted, label]), return_index=True)
    labels_of = np.bincount(group[pairs])[group[first]]  # how many labels come with a row's predictions
    of_one = np.where(labels_of > 1, np.gcd.reduce(counts), counts)
    if (of_one == 1).all():
        return None
    order = np.argsort(row, kind="stable")
    place = np.empty(len(row), np.int64)  # a row's number among the rows that equal it
    place[order] = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.unique(row * len(row) + place // of_one[row], return_inverse=True)[1]


def _mixed_label(labels: np.ndarray) -> np.ndarray:
    """uint64 [n], equal where labels, float64 [n] or [n, answers], are."""
    return _bits(labels) if labels.ndim == 1 else _mix([_bits(column) for column in labels.T.copy()])


def _is_certain(array: np.ndarray) -> np.ndarray:
    """Returns which rows hold nothing but 0 and 1, as float32 rounds them, bool [n]."""
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        return np.ones(len(array), bool)
    columns = array.reshape(len(array), -1).astype(np.float32)
    return np.isin(columns, (0, 1)).all(axis=1)


def _parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yields uint64 [n] for each number of a row; equal numbers give equal values."""
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        yield np.unique(array, return_inverse=True)[1].astype(np.uint64)
        return
    for column in array.reshape(len(array), -1).T.astype(np.float32):
        rounded = (_bits(column).astype(np.int64) + (1 << _ROUNDED_BITS - 1)) >> _ROUNDED_BITS
        yield rounded.astype(np.uint64)


def _bits(column: np.ndarray) -> np.ndarray:
    return (column + 0.0).view(f"u{column.itemsize}")  # adding 0.0 gives -0.0 the bits of 0.0


def _mix(parts: Iterator[np.ndarray] | Sequence[np.ndarray]) -> np.ndarray:
    """Mixes uint64 [n] each into one: multiplication by the golden ratio, D. E. Knuth, TAOCP 3, 6.4."""
    mixed = np.uint64(0)
    for part in parts:
        mixed = (mixed ^ part) * np.uint64(0x9E3779B97F4A7C15)
        mixed = mixed ^ (mixed >> np.uint64(32))
    return mixed
