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


class Stretches(NamedTuple):
    """The stretches of some lanes in one epoch: int64, [lanes] each where nothing else is said."""

    starts: tf.Tensor  # [parts + 1], rows before each part, and in all, in the order of the epoch
    begins: tf.Tensor  # the first row of each stretch
    sizes: tf.Tensor  # rows
    ends: tf.Tensor
    # The parts that begin in the stretch are read first; then the one in which it begins itself.
    first: tf.Tensor  # part
    whole: tf.Tensor  # parts; the last one may be cut
    turned_at: tf.Tensor  # row
    is_cut: tf.Tensor  # 1 or 0

    @classmethod
    def of(cls, part_ends: tf.Tensor, begins: tf.Tensor, sizes: tf.Tensor) -> "Stretches":
        """Those of lanes that read so many rows each, `sizes`, from the rows `begins` on.

        Args:
          part_ends: [parts], the number of rows up to the end of each part, in the order of the epoch.
        """
        starts, ends = tf.concat([[0], part_ends], axis=0), begins + sizes
        first = tf.searchsorted(starts, begins, side="left", out_type=tf.int64)
        after = tf.searchsorted(starts, ends, side="left", out_type=tf.int64)
        turned_at = tf.minimum(_start_of(first, starts), ends)
        return cls(
            starts=starts,
            begins=begins,
            sizes=sizes,
            ends=ends,
            first=first,
            whole=tf.maximum(after - first, 0),
            turned_at=turned_at,
            is_cut=tf.cast(begins < turned_at, tf.int64),
        )

    def slots_before(self, rows: tf.Tensor) -> tf.Tensor:
        """How many slots of each lane begin before its rows [lanes, n], counted from the first it reads."""
        until = self.turned_at[:, None] + rows
        found = tf.searchsorted(self.starts, tf.reshape(until, [-1]), side="left", out_type=tf.int64)
        whole = tf.reshape(found, tf.shape(until)) - self.first[:, None]
        last = tf.cast(until > self.ends[:, None], tf.int64) * self.is_cut[:, None]
        return tf.clip_by_value(whole, 0, self.whole[:, None]) + last

    def rows_before(self, slots: tf.Tensor) -> tf.Tensor:
        """How many rows each lane reads before its slots [lanes, n]."""
        starts = _start_of(self.first[:, None] + slots, self.starts)
        rows = tf.minimum(starts, self.ends[:, None]) - self.turned_at[:, None]
        return tf.where(slots > self.whole[:, None], self.sizes[:, None], rows)

    def slot_of(self, rows: tf.Tensor) -> tf.Tensor:
        """The slot in which each lane's row [lanes] is; where there is no such row, its last one."""
        return tf.maximum(self.slots_before(rows[:, None] + 1)[:, 0] - 1, 0)

    def last_begins(self) -> tf.Tensor:
        """How many rows each lane reads before its last slot, [lanes]."""
        last = tf.maximum(self.whole + self.is_cut - 1, 0)
        return self.rows_before(last[:, None])[:, 0]

    def slots(self, first: tf.Tensor, end: tf.Tensor) -> Slots:
        """The slots from `first` to before `end`, both [lanes], of each lane."""
        numbers = tf.ragged.range(first, end)
        lanes, slots = numbers.value_rowids(), numbers.flat_values
        is_cut = slots == tf.gather(self.whole, lanes)
        parts = tf.gather(self.first, lanes) + tf.where(is_cut, -tf.ones_like(slots), slots)
        starts = tf.gather(self.starts, parts)
        begins = tf.where(is_cut, tf.gather(self.begins, lanes), starts)
        ends = tf.minimum(tf.gather(self.starts, parts + 1), tf.gather(self.ends, lanes))
        return Slots(parts=parts, skipped=begins - starts, rows=ends - begins)


def _start_of(parts: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
    last = tf.size(starts, tf.int64) - 1
    return tf.gather(starts, tf.minimum(parts, last))
