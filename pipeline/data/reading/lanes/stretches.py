"""The stretches of an epoch's parts that lanes read, and where the windows of a lane begin and end in them.

The parts of an epoch, permuted, lie end to end: this is the order of their rows. A lane's stretch begins and
ends anywhere, so its first part may be cut, and is then shared with the lane before. That is read last: all
lanes begin with whole parts, and so go from window to window together. A window of a lane holds the parts
that begin in it, where windows of equally many rows are counted from the beginning of the lane.
"""

from typing import NamedTuple

import tensorflow as tf


class Slots(NamedTuple):
    """Parts as lanes read them, n in all, lane after lane: int64 [n] each."""

    parts: tf.Tensor  # in the order of the epoch
    skipped: tf.Tensor  # rows of the part that come before the stretch
    rows: tf.Tensor  # rows that are read


class Stretches:
    """The stretches of some lanes in one epoch. All tensors are int64.

    Args:
      part_ends: [parts], the number of rows up to the end of each part, in the order of the epoch.
      begins: [lanes], the first row of each stretch.
      sizes: [lanes], rows of each.
    """

    def __init__(self, part_ends: tf.Tensor, begins: tf.Tensor, sizes: tf.Tensor) -> None:
        self._starts = tf.concat([[0], part_ends], axis=0)
        self._begins, self._sizes, self._ends = begins, sizes, begins + sizes
        # The parts that begin in the stretch are read first; then the one in which it begins itself.
        self._first = tf.searchsorted(self._starts, begins, side="left", out_type=tf.int64)
        after = tf.searchsorted(self._starts, self._ends, side="left", out_type=tf.int64)
        self._whole = tf.maximum(after - self._first, 0)  # parts; the last one may be cut
        self._turned_at = tf.minimum(self._start_of(self._first), self._ends)
        self._is_cut = tf.cast(begins < self._turned_at, tf.int64)

    def slots_before(self, rows: tf.Tensor) -> tf.Tensor:
        """How many slots of each lane begin before its rows [lanes, n], counted from the first it reads."""
        until = self._turned_at[:, None] + rows
        found = tf.searchsorted(self._starts, tf.reshape(until, [-1]), side="left", out_type=tf.int64)
        whole = tf.reshape(found, tf.shape(until)) - self._first[:, None]
        last = tf.cast(until > self._ends[:, None], tf.int64) * self._is_cut[:, None]
        return tf.clip_by_value(whole, 0, self._whole[:, None]) + last

    def rows_before(self, slots: tf.Tensor) -> tf.Tensor:
        """How many rows each lane reads before its slots [lanes, n]."""
        starts = self._start_of(self._first[:, None] + slots)
        rows = tf.minimum(starts, self._ends[:, None]) - self._turned_at[:, None]
        return tf.where(slots > self._whole[:, None], self._sizes[:, None], rows)

    def slot_of(self, rows: tf.Tensor) -> tf.Tensor:
        """The slot in which each lane's row [lanes] is; where there is no such row, its last one."""
        return tf.maximum(self.slots_before(rows[:, None] + 1)[:, 0] - 1, 0)

    def last_begins(self) -> tf.Tensor:
        """How many rows each lane reads before its last slot, [lanes]."""
        last = tf.maximum(self._whole + self._is_cut - 1, 0)
        return self.rows_before(last[:, None])[:, 0]

    def slots(self, first: tf.Tensor, end: tf.Tensor) -> Slots:
        """The slots from `first` to before `end`, both [lanes], of each lane."""
        numbers = tf.ragged.range(first, end)
        lanes, slots = numbers.value_rowids(), numbers.flat_values
        is_cut = slots == tf.gather(self._whole, lanes)
        parts = tf.gather(self._first, lanes) + tf.where(is_cut, -tf.ones_like(slots), slots)
        starts = tf.gather(self._starts, parts)
        begins = tf.where(is_cut, tf.gather(self._begins, lanes), starts)
        ends = tf.minimum(tf.gather(self._starts, parts + 1), tf.gather(self._ends, lanes))
        return Slots(parts=parts, skipped=begins - starts, rows=ends - begins)

    def _start_of(self, parts: tf.Tensor) -> tf.Tensor:
        last = tf.size(self._starts, tf.int64) - 1
        return tf.gather(self._starts, tf.minimum(parts, last))
