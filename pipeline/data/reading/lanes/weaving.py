"""Rows of several lanes → rows in the order of the stream.

Lanes do not get their rows in step: a unit may hold more of one lane than of another. What comes before any
lane's next row goes on; the rest is kept for the next unit.
"""

from typing import NamedTuple

import tensorflow as tf

from pipeline.data.reading.lanes.lanes import Lanes
from pipeline.data.tracing import as_written


class Unit(NamedTuple):
    """Rows of each lane that follow those of the unit before; r rows were read, of which n are taken."""

    first: tf.Tensor  # int64 [lanes]: the number of each lane's first row here
    counts: tf.Tensor  # int64 [lanes]: how many it has
    order: tf.Tensor  # int32 [n]: which of the rows that were read, lane after lane
    rows: tf.Tensor  # [r, …]


class _Place(NamedTuple):
    """Where rows are, n of them: int32 [n], or bool [n]."""

    in_unit: tf.Tensor  # or any place there, of those that were kept
    in_kept: tf.Tensor
    is_kept: tf.Tensor


def woven(units: tf.data.Dataset, lanes: Lanes, *, position: tf.Tensor) -> tf.data.Dataset:
    """Units → (positions int64 [n], rows [n, …]): the stream of these lanes from `position`, int64 [], on."""
    rows = units.element_spec.rows
    nothing = tf.zeros([0, *rows.shape[1:]], rows.dtype)

    @as_written
    def weave(state: tuple[tf.Tensor, tf.Tensor], unit: Unit) -> tuple:
        start, kept = state
        table = _Table(unit, kept, lanes, start)
        end = tf.maximum(start, tf.reduce_min(lanes.positions_of(table.ends)))
        positions, places = table.between(end)
        return (end, table.take(table.after(end))), (positions, table.take(places))

    return units.scan((position, nothing), weave)


class _Table:
    """Where each lane's next rows are: in what was kept, and then in the unit.

    Numbers of rows are int32 and relative to the first global batch that is not done.
    """

    def __init__(self, unit: Unit, kept: tf.Tensor, lanes: Lanes, start: tf.Tensor) -> None:
        self._unit, self._kept, self._lanes, self._start = unit, kept, lanes, start
        self.ends = unit.first + unit.counts
        self._batch = start // lanes.global_batch
        next_ = lanes.rows_before(start)
        kept_counts = tf.maximum(unit.first - next_, 0)
        self._firsts = self._relative(unit.first)
        self._to_unit = tf.cast(tf.cumsum(unit.counts, exclusive=True), tf.int32) - self._firsts
        self._to_kept = tf.cast(tf.cumsum(kept_counts, exclusive=True), tf.int32) - self._relative(next_)

    def between(self, end: tf.Tensor) -> tuple[tf.Tensor, _Place]:
        """The positions of these lanes from the start to before `end`, and where their rows are."""
        lanes, (first, after) = self._lanes, self._lanes.run
        run, batches = after - first, end // lanes.global_batch - self._batch + 1
        row_in_batch = tf.range(batches)
        here = tf.range(run, dtype=tf.int64)
        positions = ((self._batch + row_in_batch) * lanes.global_batch)[:, None] + first + here
        numbers = tf.cast(row_in_batch * lanes.size, tf.int32)[:, None] + tf.cast(here % lanes.size, tf.int32)

        def of_lanes(values: tf.Tensor) -> tf.Tensor:
            return tf.repeat(values, lanes.size)

        skipped = tf.clip_by_value(self._start % lanes.global_batch - first, 0, run)
        left = tf.clip_by_value(end % lanes.global_batch - first, 0, run)
        cut = slice(skipped, (batches - 1) * run + left)
        places = _Place(
            in_unit=tf.maximum(numbers + of_lanes(self._to_unit), 0),
            in_kept=numbers + of_lanes(self._to_kept),
            is_kept=numbers < of_lanes(self._firsts),
        )
        # Copied, as groups are made of them: TensorFlow logs every slice of a slice.
        copied = tf.raw_ops.DeepCopy(x=tf.reshape(positions, [-1])[cut])
        return copied, _Place(*(tf.reshape(each, [-1])[cut] for each in places))

    def after(self, end: tf.Tensor) -> _Place:
        """Where the rows of all lanes at positions from `end` on are, lane after lane."""
        numbers = tf.ragged.range(
            self._relative(self._lanes.rows_before(end)),
            tf.maximum(self._relative(self._lanes.rows_before(end)), self._relative(self.ends)),
        )
        lanes, flat = numbers.value_rowids(), numbers.flat_values
        return _Place(
            in_unit=tf.maximum(flat + tf.gather(self._to_unit, lanes), 0),
            in_kept=flat + tf.gather(self._to_kept, lanes),
            is_kept=flat < tf.gather(self._firsts, lanes),
        )

    def take(self, places: _Place) -> tf.Tensor:
        """The rows there, [n, …]."""
        rows = tf.gather(self._unit.rows, tf.gather(self._unit.order, places.in_unit))
        from_kept = tf.where(places.is_kept)
        kept = tf.gather(self._kept, tf.gather_nd(places.in_kept, from_kept))
        # In place: nothing else holds these rows.
        return tf.tensor_scatter_nd_update(rows, from_kept, kept)

    def _relative(self, numbers: tf.Tensor) -> tf.Tensor:
        return tf.cast(numbers - self._batch * self._lanes.size, tf.int32)
