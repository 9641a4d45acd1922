"""The orders in which rows are read: pure functions of the seed and of a place in the stream.

Nothing is drawn and nothing is kept: whatever the number of hosts, threads or restarts, the row at a place is
the same. Permutations give any of their elements at once: those of rows are our own, as the cheapest ones;
those of pieces and windows are what `tf.random.experimental.index_shuffle` computes, which itself takes no
vector of keys in TensorFlow 2.19–2.21, although its documentation says so.
"""

import tensorflow as tf

from pipeline.data.permutation import MOST_ROWS, Permutation

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


def _rows(places: tf.Tensor, epochs: tf.Tensor, *, rows: int, seed: int) -> tf.Tensor:
    if rows <= MOST_ROWS:
        return tf.cast(Permutation(rows, seed=seed)(tf.cast(places, tf.int32), epochs), tf.int64)
    return _permuted(places, size=rows, key=_keys(seed, tf.broadcast_to(epochs, tf.shape(places))))


def shuffled_pieces(pieces: int, *, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """A permutation of `pieces` pieces of the data, int64 [pieces], of this epoch's own."""
    return _permuted(tf.range(pieces, dtype=tf.int64), size=pieces, key=_key(seed, epoch))


def shuffled_window(rows: tf.Tensor, *, seed: int, epoch: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """A permutation of the `rows` rows of a window, int64 [rows], of its own."""
    return _permuted(tf.range(rows), size=rows, key=_key(seed, epoch, window))


def _permuted(places: tf.Tensor, *, size: tf.Tensor | int, key: tf.Tensor) -> tf.Tensor:
    last = tf.cast(size, tf.int64) - 1
    return tf.raw_ops.RandomIndexShuffle(index=places, seed=key, max_index=last, rounds=ROUNDS)


def _key(seed: int, epoch: tf.Tensor, window: tf.Tensor | int = WHOLE_EPOCH) -> tf.Tensor:
    return tf.stack([tf.constant(seed, tf.int64), epoch, tf.cast(window, tf.int64)])


def _keys(seed: int, epochs: tf.Tensor) -> tf.Tensor:
    """`_key` of each epoch: int64 [n, 3]."""
    columns = (tf.constant(seed, tf.int64), epochs, tf.constant(WHOLE_EPOCH, tf.int64))
    return tf.stack([tf.broadcast_to(column, tf.shape(epochs)) for column in columns], axis=1)
