"""The orders in which rows are read: pure functions of the seed and of a position in the stream.

Nothing is drawn and no state is kept: whatever the number of hosts, threads or restarts, the row at a
position is the same. Any element of a permutation is computed at once. The permutations are our own, which
cost least.
"""

import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.reading.permutation import Permutation

# The version of the orders in which all ways of reading give their rows; the sizes of windows and mixtures
# are part of it. Add one with every change: no run may be continued in another order than it began in.
VERSION = 3

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


def shuffled_windows(rows: tf.Tensor, *, seed: int, epoch: tf.Tensor, windows: tf.Tensor) -> tf.Tensor:
    """What `shuffled_window` gives of n windows at once, one after the other.

    Args:
      rows: int64 [n].
      windows: int64 [n].

    Returns:
      int32 [sum of rows]; each permutation starts at the number of all rows before it.
    """
    rows = tf.cast(rows, tf.int32)
    most = tf.reduce_max(rows)
    places = tf.broadcast_to(tf.range(most), [tf.size(rows), most])
    before = tf.cumsum(rows, exclusive=True)[:, None]

    def mixed(rows: tf.Tensor) -> tf.Tensor:
        one_at_least = tf.maximum(rows, 1)
        return before + Permutation(one_at_least, seed=seed)(places, epoch, windows[:, None])

    def uneven() -> tf.Tensor:
        # Of a window of fewer rows, what comes after its end is a permutation of nothing, and is left out.
        return tf.boolean_mask(mixed(rows[:, None]), places < rows[:, None])

    # Nearly always equally many: one number for all costs a seventh less.
    return tf.cond(tf.reduce_min(rows) == most, lambda: tf.reshape(mixed(most), [-1]), uneven)


def _rows(offsets: tf.Tensor, epochs: tf.Tensor, *, rows: int, seed: int) -> tf.Tensor:
    """The rows, int64 [n], at these offsets in their epochs."""
    permutation = Permutation(rows, seed=seed)
    return tf.cast(permutation(tf.cast(offsets, permutation.dtype), epochs), tf.int64)
