"""Rows of several lanes → rows in the order of the stream.

Each row comes with its place: how many rows of these lanes the stream has before it. Rows are written to
their places in one pass, whatever the order in which they were read. Lanes do not get their rows in step:
what comes before any lane's next row goes on; the rest is kept for the next time.
"""

import functools
from typing import NamedTuple

import tensorflow as tf

from pipeline.data.reading.lanes.lanes import Lanes
from pipeline.data.tracing import as_written

NOWHERE = -(1 << 30)  # the place of a row that was read and is not selected


class Unit(NamedTuple):
    """Rows of all lanes that follow those of the unit before; in several parts, of r rows each."""

    base: tf.Tensor  # int64 []
    end: tf.Tensor  # int64 []: from this place on, rows may come later
    places: tuple[tf.Tensor, ...]  # int32 [r], after the base; below 0 those that are not wanted
    rows: tuple[tf.Tensor, ...]  # [r, …]


class _State(NamedTuple):
    start: tf.Tensor  # int64 []: the next place
    places: tf.Tensor  # int32 [k], after the start: of rows that were kept
    rows: tf.Tensor  # [k, …]


def woven(units: tf.data.Dataset, lanes: Lanes, *, position: tf.Tensor) -> tf.data.Dataset:
    """(positions int64 [n], rows [n, …]): the stream of all these lanes from `position`, int64 [], on."""
    rows = units.element_spec.rows[0]
    nothing = _State(
        start=lanes.places_before(position),
        places=tf.zeros([0], tf.int32),
        rows=tf.zeros([0, *rows.shape[1:]], rows.dtype),
    )

    # With a signature it is traced once; `scan` would trace it again for states of other sizes.
    some = tf.TensorSpec([None, *rows.shape[1:]], rows.dtype)
    any_state = _State(tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int32), some)

    @functools.partial(tf.function, autograph=False, input_signature=[any_state, units.element_spec])
    def weave(state: _State, unit: Unit) -> tuple[_State, tuple[tf.Tensor, tf.Tensor]]:
        start = state.start
        end = tf.maximum(start, unit.end)
        count = tf.cast(end - start, tf.int32)
        base = tf.cast(unit.base - start, tf.int32)
        places, rows = [state.places, *(some + base for some in unit.places)], [state.rows, *unit.rows]
        # Nearly always all rows that were read are those that go on.
        read = tf.add_n([tf.size(each) for each in places])
        done, kept = tf.cond(
            read == count,
            lambda: (tf.dynamic_stitch(places, rows), nothing[1:]),
            lambda: _parted(places, rows, count),
        )
        done = tf.ensure_shape(done, [None, *nothing.rows.shape[1:]])
        return _State(end, *kept), (lanes.positions(start, end), done)

    return units.scan(nothing, as_written(weave))


def _parted(
    places: list[tf.Tensor], rows: list[tf.Tensor], count: tf.Tensor
) -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor]]:
    """The rows of the first `count` places, and what is kept: places after those, and their rows."""
    all_places = tf.concat(places, axis=0)
    is_kept = all_places >= count
    kept = tf.boolean_mask(all_places, is_kept)
    # Behind the rows that go on come those that are kept, and then one that nobody wants.
    last = count + tf.size(kept)
    after = count + tf.cumsum(tf.cast(is_kept, tf.int32), exclusive=True)
    to = tf.where(is_kept, after, tf.where(all_places < 0, last, all_places))
    stitched = tf.dynamic_stitch(tf.split(to, [tf.size(each) for each in places], num=len(places)), rows)
    # Copied, as groups are made of them: TensorFlow logs every slice of a slice.
    done = tf.raw_ops.DeepCopy(x=stitched[:count])
    return done, (kept - count, tf.raw_ops.DeepCopy(x=stitched[count:last]))
