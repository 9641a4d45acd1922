"""Rows in windows: parts of the data are permuted over the epoch, and rows inside a window of some parts.

This is for small records, and for blocks that cannot be mapped into memory. Every canonical shard has windows
of its own (`canonical_shards.py`), and a host reads only the windows of its own shards. "Shard" means a
canonical shard here.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pipeline.base.tracing import no_autograph, tf_function
from pipeline.data.dataset.selection import Selection
from pipeline.data.reading import order
from pipeline.data.reading.canonical_shards import (
    CanonicalShards,
    IndexRanges,
    UnitStart,
    all_canonical_shards,
    group_size,
    unit_size,
    unit_starts,
)
from pipeline.data.reading.fetch import Fetch, dataset_options
from pipeline.data.reading.parsing import words_of_blocks
from pipeline.data.reading.plan import ReadPlan
from pipeline.data.reading.sharding import cut_runs, rebatched
from pipeline.data.reading.window_parts import WindowParts, cut_windows

# --- Interleaves the rows of several shards into the order of the stream.

NOWHERE = -(1 << 30)  # the place of a row that was read but is not selected


class Unit(NamedTuple):
    """The next rows of all shards, read together; the rows come in several tensors, of r rows each."""

    base: tf.Tensor  # int64 []
    end: tf.Tensor  # int64 []: from this place on, rows may come later
    places: tuple[tf.Tensor, ...]  # int32 [r], counted from the base; below 0 for rows that are not wanted
    rows: tuple[tf.Tensor, ...]  # [r, …]


class _State(NamedTuple):
    start: tf.Tensor  # int64 []: the next place
    places: tf.Tensor  # int32 [k], counted from the start: places of rows that were kept
    rows: tf.Tensor  # [k, …]


def interleave(units: tf.data.Dataset, canonical: CanonicalShards, *, position: tf.Tensor) -> tf.data.Dataset:
    """(positions int64 [n], rows [n, …]): the stream of all these shards from `position`, int64 [], on.

    Each row comes with its place: how many rows of these shards the stream has before it. Rows are written to
    their places in one pass, in whatever order they were read. Shards are not read at the same pace. Rows
    that come before every shard's next row are given out; the rest are kept for the next time.
    """
    rows = units.element_spec.rows[0]
    nothing = _State(
        start=canonical.places_before(position),
        places=tf.zeros([0], tf.int32),
        rows=tf.zeros([0, *rows.shape[1:]], rows.dtype),
    )

    # With a signature it is traced once; `scan` would trace it again for states of other sizes.
    some = tf.TensorSpec([None, *rows.shape[1:]], rows.dtype)
    any_state = _State(tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int32), some)

    @functools.partial(tf.function, autograph=False, input_signature=[any_state, units.element_spec])
    def add_unit(state: _State, unit: Unit) -> tuple[_State, tuple[tf.Tensor, tf.Tensor]]:
        start = state.start
        end = tf.maximum(start, unit.end)
        count = tf.cast(end - start, tf.int32)
        base = tf.cast(unit.base - start, tf.int32)
        places = [some + base for some in unit.places]
        read = tf.add_n([tf.size(each) for each in places])
        # If windows end where batches end, exactly the rows that were read are given out.
        done, kept = tf.cond(
            (read == count) & (tf.size(state.places) == 0),
            lambda: (_stitched(places, unit.rows), nothing[1:]),
            lambda: _parted([state.places, *places], [state.rows, *unit.rows], count),
        )
        done = tf.ensure_shape(done, [None, *nothing.rows.shape[1:]])
        return _State(end, *kept), (canonical.positions(start, end), done)

    return units.scan(nothing, no_autograph(add_unit))


def _parted(
    places: list[tf.Tensor], rows: list[tf.Tensor], count: tf.Tensor
) -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor]]:
    """The rows of the first `count` places, and what is kept: places after those, and their rows."""
    done = (_in_order if len(rows) == 2 else _in_place)(places, rows, count)
    is_kept = [each >= count for each in places]
    kept, of_kept = (tf.concat(_chosen(parts, is_kept), axis=0) for parts in (places, rows))
    return done, (kept - count, of_kept)


def _in_order(places: list[tf.Tensor], rows: list[tf.Tensor], count: tf.Tensor) -> tf.Tensor:
    """The rows of the first `count` places, from the kept rows and a unit of one part; see `_stitched`."""
    are_now = [(each >= 0) & (each < count) for each in places]
    [of_kept, read] = _chosen(places, are_now)
    [kept] = _chosen(rows[:1], are_now[:1])
    numbers = tf.cast(tf.reshape(tf.where(are_now[1]), [-1]), tf.int32)
    done = tf.gather(rows[1], tf.scatter_nd(read[:, None], numbers, count[None]))
    return tf.tensor_scatter_nd_update(done, of_kept[:, None], kept)


def _in_place(places: list[tf.Tensor], rows: list[tf.Tensor], count: tf.Tensor) -> tf.Tensor:
    """Does what `_in_order` does, for a unit of several parts."""
    # Slicing the rows that are given out would be another copy. So all other rows are written to the first
    # place; the first place's own row is written last, and stays.
    to = [tf.where((each >= 0) & (each < count), each, 0) for each in places]
    first = _chosen(rows, [each == 0 for each in places])
    to += [tf.zeros([tf.shape(some)[0]], tf.int32) for some in first]
    stitched = tf.dynamic_stitch(to, rows + first)
    # If no row is given out, `stitched` still holds one row, which is cut off.
    return tf.cond(count > 0, lambda: stitched, lambda: stitched[:0])


def _stitched(places: Sequence[tf.Tensor], rows: Sequence[tf.Tensor]) -> tf.Tensor:
    """Rows, [r, …] each, written to their places, int32 [r] each; together these hold every place from 0 on
    once.
    """
    if len(rows) == 1:
        # A gather need not fill memory first. It copies strings in the order of the result, so the parser
        # finds them faster.
        return tf.gather(rows[0], tf.math.invert_permutation(places[0]))
    return tf.dynamic_stitch(places, rows)


def _chosen(parts: list[tf.Tensor], are_chosen: list[tf.Tensor]) -> list[tf.Tensor]:
    # `boolean_mask` makes seven times as many operations, which cost more than copying small parts.
    chosen = [tf.reshape(tf.where(are), [-1]) for are in are_chosen]
    return [tf.gather(part, rows) for part, rows in zip(parts, chosen, strict=True)]


# --- Windows, read unit by unit: a unit is the windows of each shard that are read together.

UNITS_AT_ONCE = 2  # units that are read at once; their order stays


class WindowReader:
    """Reads some shards of a selection in windows of its parts.

    With `only_numbers` it reads nothing, and gives the number of each row over all files.
    """

    def __init__(
        self,
        selection: Selection,
        parts: WindowParts,
        canonical: CanonicalShards,
        *,
        seed: int,
        only_numbers: bool = False,
    ) -> None:
        self._rows, self.canonical = selection.rows, canonical
        self._seed = seed
        is_of_blocks = selection.shards.rows_in_record > 1
        self._size = unit_size(parts, canonical, is_of_blocks=is_of_blocks)
        of_shard = self._size.windows * parts.in_window(canonical.count)  # parts of each shard in a unit
        of_group = group_size(
            canonical.here,
            parts=of_shard,
            in_windows=parts.in_windows,
            is_of_blocks=is_of_blocks,
        )
        self._group_sizes = [min(of_group, canonical.here - i) for i in range(0, canonical.here, of_group)]
        self._counts = tf.constant(parts.rows)
        usual = of_shard * of_group
        self._read = PartNumbers(parts) if only_numbers else PartRows(selection, parts, usual=usual)

    def rows_from(self, position: int | tf.Tensor) -> tf.data.Dataset:
        """Endless (positions int64 [n], rows [n, …]) from `position` on."""
        position, canonical = tf.convert_to_tensor(position, tf.int64), self.canonical
        begin = position // canonical.global_batch * canonical.global_batch
        in_turn = unit_starts(
            self._counts, canonical, rows=self._rows, seed=self._seed, begin=begin, unit=self._size
        )
        units = in_turn.map(no_autograph(self._unit_at), num_parallel_calls=UNITS_AT_ONCE, deterministic=True)
        return interleave(units, canonical, position=position)

    def _unit_at(self, at: UnitStart) -> Unit:
        segments, (size, together) = at.segments, self._size
        window = at.window[:, None] + tf.range(together + 1, dtype=tf.int64)
        ranges = segments.ranges_before(window * size)
        before = segments.rows_before(ranges)
        chosen = segments.ranges(ranges[:, 0], ranges[:, -1])
        chosen = chosen._replace(parts=tf.gather(at.order_of_parts, chosen.parts))
        mixed = self._mixed(at.epoch, window[:, :-1], before)
        rows = at.begins + before[:, 0], at.begins + before[:, -1]
        return self._unit(chosen, ranges[:, -1] - ranges[:, 0], *rows, mixed)

    def _unit(
        self, chosen: IndexRanges, parts: tf.Tensor, begins: tf.Tensor, ends: tf.Tensor, mixed: tf.Tensor
    ) -> Unit:
        """The rows [begins, ends) of the shards, int64 [shards] both.

        Args:
          chosen: the parts that hold them.
          mixed: int32 [n], which row each becomes, shard after shard.
        """
        canonical, counts = self.canonical, ends - begins
        shard_numbers = tf.range(canonical.first, canonical.end)
        batch = tf.reduce_min(begins) // canonical.size
        # Added to a row's number over all shards here, this gives its number in its shard, counted from that
        # batch on.
        to_shard = tf.cast(begins - batch * canonical.size - tf.cumsum(counts, exclusive=True), tf.int32)
        of_shard = tf.reduce_max(counts)

        def even() -> tf.Tensor:
            each = tf.reshape(mixed, [canonical.here, of_shard]) + to_shard[:, None]
            return tf.reshape(canonical.places(each, shard_numbers[:, None]), [-1])

        def uneven() -> tf.Tensor:
            shard = tf.repeat(tf.range(canonical.here), counts)
            return canonical.places(mixed + tf.gather(to_shard, shard), canonical.first + shard)

        places = self._grouped(tf.cond(tf.reduce_min(counts) == of_shard, even, uneven), counts)
        of_groups = zip(*(self._grouped(column, parts) for column in chosen), strict=True)
        read = [self._read(IndexRanges(*each), some) for each, some in zip(of_groups, places, strict=True)]
        places, rows = zip(*read, strict=True)
        # Only whole batches are given out: cutting groups of any size into batches later would cost one more
        # copy.
        first, end = (
            at * canonical.here * canonical.size for at in (batch, tf.reduce_min(ends) // canonical.size)
        )
        return Unit(base=first, end=end, places=places, rows=rows)

    def _grouped(self, values: tf.Tensor, of_shards: tf.Tensor) -> list[tf.Tensor]:
        """Splits values by group. They lie shard after shard; `of_shards`, int64 [shards], says how many each
        shard has.
        """
        groups = tf.split(of_shards, self._group_sizes)
        return tf.split(values, [tf.reduce_sum(group) for group in groups], num=len(groups))

    def _mixed(self, epoch: tf.Tensor, windows: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
        """The row that each row inside a window becomes: int32 [n], shard after shard.

        Args:
          windows: int64 [shards, windows], their numbers.
          before: int64 [shards, windows + 1], rows of the shard before each of them, and after the last.
        """
        rows = tf.reshape(before[:, 1:] - before[:, :-1], [-1])
        shard = tf.range(self.canonical.first, self.canonical.end, dtype=tf.int64)
        number = tf.reshape(windows * self.canonical.count + shard[:, None], [-1])
        return order.shuffled_windows(rows, seed=self._seed, epoch=epoch, windows=number)


def read(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """Endless (positions int64 [n], rows [n, …]) of the plan's share."""
    return _of_share(plan, batches, only_numbers=False)


def numbers(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """Like `read`, but gives the number of each row over all files, int64 [n], in place of the row."""
    return _of_share(plan, batches, only_numbers=True)


def window_rows(selection: Selection, *, seed: int, position: int | tf.Tensor) -> tf.data.Dataset:
    """Endless (positions int64 [n], rows [n, …]), a window at a time; the first one starts at `position`.

    This is the order with one canonical shard, as for a global batch of one example.
    """
    parts = cut_windows(selection)
    return WindowReader(selection, parts, all_canonical_shards(parts, global_batch=1), seed=seed).rows_from(
        position
    )


def stored_rows(selection: Selection) -> tf.data.Dataset:
    """Every row once, in stored order: (positions int64 [n], rows [n, …]), a window at a time."""
    parts = cut_windows(selection)
    together, count = parts.in_windows, len(parts.rows)
    read_rows = PartRows(selection, parts, usual=min(together, count))
    rows_of_parts, ends = tf.constant(parts.rows), tf.constant(np.cumsum(parts.rows))

    @no_autograph
    def window(first: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        chosen = tf.range(first, tf.minimum(first + together, count))
        counts = tf.gather(rows_of_parts, chosen)
        end, wanted = ends[chosen[-1]], tf.reduce_sum(counts)
        ranges = IndexRanges(parts=chosen, skipped=tf.zeros_like(chosen), rows=counts)
        places, rows = read_rows(ranges, tf.range(tf.cast(wanted, tf.int32)))
        is_whole = tf.shape(rows, tf.int64)[0] == wanted
        selected = tf.cond(is_whole, lambda: rows, lambda: tf.boolean_mask(rows, places != NOWHERE))
        return tf.range(end - wanted, end), selected

    windows = tf.data.Dataset.range(0, count, together)
    return windows.map(window, num_parallel_calls=UNITS_AT_ONCE, deterministic=True).with_options(
        dataset_options()
    )


def _of_plan(plan: ReadPlan, *, only_numbers: bool) -> WindowReader:
    share, parts = plan.share, cut_windows(plan.selection)
    canonical = all_canonical_shards(parts, global_batch=share.global_batch, most=plan.most_canonical_shards)
    if not share.is_all and _begins_a_batch(plan):
        canonical = canonical.of_run(*share.run)
    return WindowReader(plan.selection, parts, canonical, seed=plan.seed, only_numbers=only_numbers)


def _of_share(plan: ReadPlan, batches: int, *, only_numbers: bool) -> tf.data.Dataset:
    windows, share = _of_plan(plan, only_numbers=only_numbers), plan.share
    canonical, (first, end) = windows.canonical, share.run
    rows = windows.rows_from(plan.position)
    is_every_turn = share.cuts_batches or share.service_count == 1
    if is_every_turn and canonical.run == (first, end):
        return rows
    read_first, read_end = canonical.run
    size = read_end - read_first
    cut = first - read_first, end - read_first

    @no_autograph
    def here(positions: tf.Tensor, some: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return cut_runs(positions, size, *cut), cut_runs(some, size, *cut)

    return share.turns_here(rebatched(rows, batches * size)).map(here)


def _begins_a_batch(plan: ReadPlan) -> bool:
    """Returns whether reading starts where a global batch starts. It does not if the batch size was changed
    in the middle of one.
    """
    return isinstance(plan.position, int) and plan.position % plan.share.global_batch == 0


# --- The rows of chosen parts, each with the place that it shall get.

_MOST_USUAL = 64  # blocks: a dataset is traced for each


class PartNumbers:
    """Gives the number of each row over all files, int64 [r], and reads nothing."""

    def __init__(self, parts: WindowParts) -> None:
        self._first_rows = tf.constant(parts.first_row)

    def __call__(self, chosen: IndexRanges, places: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        first = tf.gather(self._first_rows, chosen.parts) + chosen.skipped
        return places, tf.ragged.range(first, first + chosen.rows).flat_values


class PartRows:
    """Reads the rows of parts.

    Args:
      usual: the usual number of chosen parts.
    """

    def __init__(self, selection: Selection, parts: WindowParts, *, usual: int) -> None:
        self._usual, self._schema = usual, selection.dataset.schema
        self._first, self._skipped = tf.constant(parts.first_record), tf.constant(parts.skipped_rows)
        self._rows_in_record = selection.shards.rows_in_record
        self._fetch = Fetch(selection.shards)
        # All groups use one function: tracing hundreds of datasets of one record would take seconds.
        some = tf.TensorSpec([None], tf.int64)
        self._words, self._runs = tf_function(self._words_of, some), tf_function(self._fetch.runs, some, some)

    def __call__(self, chosen: IndexRanges, places: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads the chosen parts; returns the places of the r rows that are read, int32 [r], and the rows,
        [r, …].

        Args:
          places: the places of the wanted rows, int32 [n].
        """
        first = tf.gather(self._first, chosen.parts)
        if self._rows_in_record == 1:
            return places, self._runs(first + chosen.skipped, chosen.rows)
        words = self._words(first)
        read = tf.shape(words)[0]
        # Nearly always, whole blocks are read.
        is_whole = tf.size(places) == read
        return tf.cond(is_whole, lambda: places, lambda: self._placed(chosen, places, read)), words

    def _placed(self, chosen: IndexRanges, places: tf.Tensor, read: tf.Tensor) -> tf.Tensor:
        """Places of all rows that are read, int32 [read]."""
        skipped = tf.gather(self._skipped, chosen.parts) + chosen.skipped
        begins = tf.range(tf.size(skipped, tf.int64)) * self._rows_in_record + skipped
        wanted = tf.ragged.range(begins, begins + chosen.rows).flat_values
        return tf.tensor_scatter_nd_update(tf.fill([read], NOWHERE), wanted[:, None], places)

    def _words_of(self, numbers: tf.Tensor) -> tf.Tensor:
        """The rows of the blocks with these numbers, int64 [n]. Reading the usual number of blocks costs a
        third less.
        """

        def any_number() -> tf.Tensor:
            return self._runs(numbers, tf.ones_like(numbers))

        def usual() -> tf.Tensor:
            # The numbers are filled up, because TensorFlow may run this before it chooses the branch, with
            # fewer numbers.
            filled = tf.pad(numbers, [[0, self._usual]])[: self._usual]
            return self._fetch.records(tf.reshape(filled, [self._usual]))

        # Where reads are slow, `runs` has many in flight.
        is_apart = self._fetch.in_flight.is_slow or self._usual > _MOST_USUAL
        is_usual = tf.size(numbers) == self._usual
        blocks = any_number() if is_apart else tf.cond(is_usual, usual, any_number)
        return words_of_blocks(blocks, self._schema)
