"""Where the units of lanes lie, one after the other, from epoch to epoch.

The parts of an epoch are permuted once, when its first unit is reached. All units come out of one dataset:
one of each epoch's own takes 20 ms to set up, however few rows an epoch has.
"""

import functools
from typing import NamedTuple

import tensorflow as tf

from pipeline.data.reading import order
from pipeline.data.reading.lanes.lanes import Lanes, rows_before
from pipeline.data.reading.lanes.stretches import Stretches
from pipeline.data.reading.lanes.unit_size import UnitSize
from pipeline.data.tracing import apart, as_written


class UnitPlace(NamedTuple):
    """A unit of an epoch; int64 where nothing else is said."""

    epoch: tf.Tensor  # []
    begins: tf.Tensor  # [lanes], rows of each lane before the epoch
    order_of_parts: tf.Tensor  # int32 [parts]
    stretches: Stretches
    window: tf.Tensor  # [lanes], the number in its lane's stretch of each lane's first window
    left: tf.Tensor  # [], units of the epoch from this one on


def unit_places(
    counts: tf.Tensor, lanes: Lanes, *, rows: int, seed: int, begin: tf.Tensor, unit: UnitSize
) -> tf.data.Dataset:
    """Endless `UnitPlace`s, from the unit on that holds the position `begin`, int64 [].

    Args:
      counts: int64 [parts], rows of each part of the data.
      rows: of all.
    """

    def entered(epoch: tf.Tensor) -> UnitPlace:
        of_all = rows_before(epoch * rows, lanes)
        sizes = rows_before((epoch + 1) * rows, lanes) - of_all
        order_of_parts = order.shuffled_parts(counts.shape[0], seed=seed, epoch=epoch)
        ends = tf.cumsum(tf.gather(counts, order_of_parts))
        begins, sizes, firsts = map(lanes.of_all, (of_all, sizes, tf.cumsum(sizes, exclusive=True)))
        stretches = Stretches.of(ends, firsts, sizes)
        # Reading begins somewhere in the first epoch, and at the start of each later one.
        done = tf.maximum(lanes.rows_before(begin) - begins, 0)
        first = stretches.rows_before(stretches.slot_of(done)[:, None])[:, 0] // unit.window_rows
        windows = tf.reduce_max(stretches.last_begins() // unit.window_rows - first) + 1
        left = -(-windows // unit.windows)
        return UnitPlace(epoch, begins, order_of_parts, stretches, window=first, left=left)

    number, some = tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int64)
    parts, of_lanes = tf.TensorSpec([None], tf.int32), Stretches(*[some] * len(Stretches._fields))
    any_place = UnitPlace(number, some, parts, of_lanes, window=some, left=number)
    enter = apart(entered, number)

    # With a signature it is traced once; see `weaving.woven`.
    @functools.partial(tf.function, autograph=False, input_signature=[any_place, number])
    def next_place(last: UnitPlace, number: tf.Tensor) -> tuple[UnitPlace, UnitPlace]:
        del number
        is_same = last.left > 1
        following = last._replace(window=last.window + unit.windows, left=last.left - 1)
        place = tf.cond(is_same, lambda: following, lambda: enter(last.epoch + 1))
        return place, place

    nothing = tf.nest.map_structure(
        lambda spec: tf.zeros([0] * spec.shape.rank, spec.dtype), any_place
    )  # of the epoch before
    before = nothing._replace(epoch=begin // rows - 1)
    return tf.data.Dataset.range(tf.int64.max).scan(before, as_written(next_place))
