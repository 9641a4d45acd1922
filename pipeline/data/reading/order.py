"""The orders in which rows are read: pure functions of the seed and of a position in the stream.

Nothing is drawn and no state is kept: whatever the number of hosts, threads or restarts, the row at a
position is the same. Any element of a permutation is computed at once. The permutations are our own, which
cost least. Only more rows than ours can permute go through the operation behind
`tf.random.experimental.index_shuffle`, called here directly: the function takes no vector of keys in
TensorFlow 2.19–2.21, although its documentation says so.
"""

import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.reading.permutation import MOST_ROWS, Permutation

# The version of the orders in which all ways of reading give their rows; the sizes of windows and mixtures
# are part of it. Add one with every change: no run may be continued in another order than it began in.
VERSION = 2

_ROUNDS = 4  # of the cipher, as in `index_shuffle`
# These stand in place of a window's number in what a permutation is keyed by.
_WHOLE_EPOCH = -1
OF_A_MIXTURE = -2


def selected_rows(positions: tf.Tensor, selection: Selection, *, seed: int) -> tf.Tensor:
    """The rows that a permutation of the whole epoch puts at ascending positions, int64 [n].

    Returns:
      int64 [n], numbers of rows over all shards of the selection.
    """
    rows = _shuffled_rows(positions, rows=selection.rows, seed=seed)
    if len(selection.ranges) == 1:
        return rows + selection.ranges[0][0]
    firsts = tf.constant([first for first, _ in selection.ranges], tf.int64)
    sizes = tf.constant([last - first for first, last in selection.ranges], tf.int64)
    starts = tf.cumsum(sizes, exclusive=True)
    part = tf.searchsorted(starts, rows, side="right") - 1
    return rows - tf.gather(starts, part) + tf.gather(firsts, part)


def _shuffled_rows(positions: tf.Tensor, *, rows: int, seed: int) -> tf.Tensor:
    """The rows at these positions, each epoch being a permutation of its own of all `rows` rows.

    Args:
      positions: int64 [n], ascending positions in the endless stream, which tell the epoch too.

    Returns:
      int64 [n], rows in [0, rows).
    """
    first_epoch = positions[0] // rows
    offsets = positions - first_epoch * rows
    # Nearly always within one epoch; dividing every position would cost as much as permuting it.
    return tf.cond(
        offsets[-1] < rows,
        lambda: _rows(offsets, first_epoch, rows=rows, seed=seed),
        lambda: _rows(offsets % rows, first_epoch + offsets // rows, rows=rows, seed=seed),
    )


def shuffled_parts(parts: int, *, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """A permutation, int32 [parts], of the parts of the data, of its own in each epoch (int64 [])."""
    return shuffled_window(tf.constant(parts), seed=seed, epoch=epoch, window=_WHOLE_EPOCH)


def shuffled_window(rows: tf.Tensor, *, seed: int, epoch: tf.Tensor, window: tf.Tensor | int) -> tf.Tensor:
    """A permutation, int32 [rows], of the `rows` rows (integer []) of a window, of its own in each epoch."""
    rows = tf.cast(rows, tf.int32)
    return Permutation(rows, seed=seed)(tf.range(rows), epoch, window)


def _rows(offsets: tf.Tensor, epochs: tf.Tensor, *, rows: int, seed: int) -> tf.Tensor:
    """The rows, int64 [n], at these offsets in their epochs."""
    if rows <= MOST_ROWS:
        return tf.cast(Permutation(rows, seed=seed)(tf.cast(offsets, tf.int32), epochs), tf.int64)
    keys = _keys(seed, tf.broadcast_to(epochs, tf.shape(offsets)))
    last = tf.constant(rows - 1, tf.int64)
    return tf.raw_ops.RandomIndexShuffle(index=offsets, seed=keys, max_index=last, rounds=_ROUNDS)


def _keys(seed: int, epochs: tf.Tensor) -> tf.Tensor:
    """Keys of the cipher, int64 [n, 3], for epochs int64 [n]."""
    columns = (tf.constant(seed, tf.int64), epochs, tf.constant(_WHOLE_EPOCH, tf.int64))
    return tf.stack([tf.broadcast_to(column, tf.shape(epochs)) for column in columns], axis=1)
