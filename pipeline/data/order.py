"""The orders in which rows are read: pure functions of the seed and of a place in the stream.

Nothing is drawn and nothing is kept: whatever the number of hosts, threads or restarts, the row at a place is
the same. Permutations give any of their elements at once. They are our own, as the cheapest ones; only of
more rows than ours can permute, they are what `tf.random.experimental.index_shuffle` computes, which itself
takes no vector of keys in TensorFlow 2.19–2.21, although its documentation says so.
"""

import tensorflow as tf

from pipeline.data.permutation import MOST_ROWS, Permutation

# Of the orders in which all ways of reading give their rows, the sizes of windows and mixtures included. Add
# one with every change of any of them: no run may be continued in another order than it began in.
VERSION = 2

ROUNDS = 4  # of the cipher, as `index_shuffle` has it
# In place of a window's number, in what a permutation is keyed by.
WHOLE_EPOCH = -1
OF_A_MIXTURE = -2


def shuffled_rows(positions: tf.Tensor, *, rows: int, seed: int) -> tf.Tensor:
    """Every epoch a permutation of its own of all `rows` rows.

    Args:
      positions: int64 [n], ascending places in the endless stream; epoch and place in it follow from them.

    Returns:
      int64 [n], rows in [0, rows).
    """
    first = positions[0] // rows
    places = positions - first * rows
    # Nearly always within one epoch; dividing every position would cost as much as permuting it.
    return tf.cond(
        places[-1] < rows,
        lambda: _rows(places, first, rows=rows, seed=seed),
        lambda: _rows(places % rows, first + places // rows, rows=rows, seed=seed),
    )


def shuffled_pieces(pieces: int, *, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """A permutation of `pieces` pieces of the data, int32 [pieces], of this epoch's own."""
    return shuffled_window(tf.constant(pieces), seed=seed, epoch=epoch, window=WHOLE_EPOCH)


def shuffled_window(rows: tf.Tensor, *, seed: int, epoch: tf.Tensor, window: tf.Tensor | int) -> tf.Tensor:
    """A permutation of the `rows` rows of a window, int32 [rows], of its own."""
    rows = tf.cast(rows, tf.int32)
    return Permutation(rows, seed=seed)(tf.range(rows), epoch, window)


def _rows(places: tf.Tensor, epochs: tf.Tensor, *, rows: int, seed: int) -> tf.Tensor:
    if rows <= MOST_ROWS:
        return tf.cast(Permutation(rows, seed=seed)(tf.cast(places, tf.int32), epochs), tf.int64)
    keys = _keys(seed, tf.broadcast_to(epochs, tf.shape(places)))
    last = tf.constant(rows - 1, tf.int64)
    return tf.raw_ops.RandomIndexShuffle(index=places, seed=keys, max_index=last, rounds=ROUNDS)


def _keys(seed: int, epochs: tf.Tensor) -> tf.Tensor:
    """int64 [n, 3]."""
    columns = (tf.constant(seed, tf.int64), epochs, tf.constant(WHOLE_EPOCH, tf.int64))
    return tf.stack([tf.broadcast_to(column, tf.shape(epochs)) for column in columns], axis=1)
