"""Rows of several lanes → rows in the order of the stream.

Each row comes with its place: how many rows of these lanes the stream has before it. Rows are written to
their places in one pass, whatever the order in which they were read. Lanes do not get their rows in step:
what comes before any lane's next row goes on; the rest is kept for the next time.
"""

import functools
from collections.abc import Sequence
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
        places = [some + base for some in unit.places]
        read = tf.add_n([tf.size(each) for each in places])
        # Where windows end with batches, all rows that were read go on, and no other.
        done, kept = tf.cond(
            (read == count) & (tf.size(state.places) == 0),
            lambda: (_stitched(places, unit.rows), nothing[1:]),
            lambda: _parted([state.places, *places], [state.rows, *unit.rows], count),
        )
        done = tf.ensure_shape(done, [None, *nothing.rows.shape[1:]])
        return _State(end, *kept), (lanes.positions(start, end), done)

    return units.scan(nothing, as_written(weave))


def _parted(
    places: list[tf.Tensor], rows: list[tf.Tensor], count: tf.Tensor
) -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor]]:
    """The rows of the first `count` places, and what is kept: places after those, and their rows."""
    done = (_in_order if len(rows) == 2 else _in_place)(places, rows, count)
    is_kept = [each >= count for each in places]
    kept, of_kept = (tf.concat(_chosen(parts, is_kept), axis=0) for parts in (places, rows))
    return done, (kept - count, of_kept)


def _in_order(places: list[tf.Tensor], rows: list[tf.Tensor], count: tf.Tensor) -> tf.Tensor:
    """The rows of the first `count` places, of what was kept and of a unit of one part; see `_stitched`."""
    are_now = [(each >= 0) & (each < count) for each in places]
    [of_kept, read] = _chosen(places, are_now)
    [kept] = _chosen(rows[:1], are_now[:1])
    numbers = tf.cast(tf.reshape(tf.where(are_now[1]), [-1]), tf.int32)
    done = tf.gather(rows[1], tf.scatter_nd(read[:, None], numbers, count[None]))
    return tf.tensor_scatter_nd_update(done, of_kept[:, None], kept)


def _in_place(places: list[tf.Tensor], rows: list[tf.Tensor], count: tf.Tensor) -> tf.Tensor:
    """The same of a unit of several parts."""
    # A slice of the rows that go on would be another copy. So the others are written in the place of the
    # first one; this comes last, and stays.
    to = [tf.where((each >= 0) & (each < count), each, 0) for each in places]
    first = _chosen(rows, [each == 0 for each in places])
    to += [tf.zeros([tf.shape(some)[0]], tf.int32) for some in first]
    stitched = tf.dynamic_stitch(to, rows + first)
    # Where nothing goes on, it is one row that is not meant.
    return tf.cond(count > 0, lambda: stitched, lambda: stitched[:0])


def _stitched(places: Sequence[tf.Tensor], rows: Sequence[tf.Tensor]) -> tf.Tensor:
    """Rows, [r, …] each, written to their places, int32 [r] each: every one from 0 on, once."""
    if len(rows) == 1:
        # Without filling up what is written later. And strings lie in memory in the order in which they were
        # copied: what parses them finds them faster where this is their own.
        return tf.gather(rows[0], tf.math.invert_permutation(places[0]))
    return tf.dynamic_stitch(places, rows)


def _chosen(parts: list[tf.Tensor], are_chosen: list[tf.Tensor]) -> list[tf.Tensor]:
    # `boolean_mask` is seven times the operations, which cost more than small parts do.
    chosen = [tf.reshape(tf.where(are), [-1]) for are in are_chosen]
    return [tf.gather(part, rows) for part, rows in zip(parts, chosen, strict=True)]
