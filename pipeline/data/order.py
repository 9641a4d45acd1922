"""The orders in which rows are read: pure functions of the seed and of a place in the stream.

Nothing is drawn and nothing is kept: whatever the number of hosts, threads or restarts, the row at a place is
the same. A permutation is a block cipher over a range of integers, which gives any of its elements at once
(what `tf.random.experimental.index_shuffle` does; that function itself takes no vector of keys in TensorFlow
2.19–2.21, although its documentation says so).
"""

import tensorflow as tf

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
    epochs, places = positions // rows, positions % rows
    return tf.cond(
        epochs[0] == epochs[-1],
        lambda: _permuted(places, size=rows, key=_key(seed, epochs[0])),
        lambda: _permuted(places, size=rows, key=_keys(seed, epochs)),
    )


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
