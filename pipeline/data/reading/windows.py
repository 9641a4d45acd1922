"""Rows in windows: parts of the data are permuted over the epoch, and rows inside a window of some parts.

For small records, and for blocks that cannot be mapped into memory. Every lane has windows of its own
(`lanes/lanes.py`), and a host reads those of its lanes alone.
"""

import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.reading import order
from pipeline.data.reading.block_rows import words_of_blocks
from pipeline.data.reading.host_share import cut_runs, rebatched
from pipeline.data.reading.lanes import window_parts
from pipeline.data.reading.lanes.lanes import Lanes, all_lanes, rows_before
from pipeline.data.reading.lanes.stretches import Slots, Stretches
from pipeline.data.reading.lanes.weaving import Unit, woven
from pipeline.data.reading.plan import ReadPlan
from pipeline.data.reading.record_fetch import Fetch
from pipeline.data.tracing import as_written

UNITS_AT_ONCE = 2  # their order stays


def read(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """Endless (positions int64 [n], rows [n, …]) of the plan's share."""
    return _of_share(plan, batches, only_numbers=False)


def numbers(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """The same as `read`, with the number of each row over all shards, int64 [n], in place of the row."""
    return _of_share(plan, batches, only_numbers=True)


def window_rows(selection: Selection, *, seed: int, position: int | tf.Tensor) -> tf.data.Dataset:
    """Endless (positions int64 [n], rows [n, …]), a window at a time; the first one starts at `position`.

    There is one lane: it is the order of a global batch of one example.
    """
    return _of_one_lane(selection, seed=seed).rows_from(position)


def stored_rows(selection: Selection) -> tf.data.Dataset:
    """Every row once, in stored order: (positions int64 [n], rows [n, …]), a window at a time."""
    return _of_one_lane(selection, seed=None).rows_from(0)


def _of_one_lane(selection: Selection, *, seed: int | None) -> "_Windows":
    parts = window_parts.cut(selection)
    return _Windows(selection, parts, all_lanes(parts, global_batch=1), seed=seed)


def _of_share(plan: ReadPlan, batches: int, *, only_numbers: bool) -> tf.data.Dataset:
    share, parts = plan.share, window_parts.cut(plan.selection)
    lanes = all_lanes(parts, global_batch=share.global_batch, most=plan.most_lanes)
    first, end = share.run
    if not share.is_all and _begins_a_batch(plan):
        lanes = lanes.of_run(first, end)
    windows = _Windows(plan.selection, parts, lanes, seed=plan.seed, only_numbers=only_numbers)
    rows = windows.rows_from(plan.position)
    if share.is_all or lanes.run == (first, end):
        return rows
    read_first, read_end = lanes.run
    size = read_end - read_first
    cut = first - read_first, end - read_first

    @as_written
    def here(positions: tf.Tensor, some: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return cut_runs(positions, size, *cut), cut_runs(some, size, *cut)

    return rebatched(rows, batches * size).map(here)


def _begins_a_batch(plan: ReadPlan) -> bool:
    """Whether hosts' runs are those of lanes: not if the global batch was changed in the middle of one."""
    return isinstance(plan.position, int) and plan.position % plan.share.global_batch == 0


class _Windows:
    """Reads some lanes of a selection in windows of its parts; with `seed` None in stored order.

    With `only_numbers` it gives the number of each row over all shards, and reads nothing.
    """

    def __init__(
        self,
        selection: Selection,
        parts: window_parts.WindowParts,
        lanes: Lanes,
        *,
        seed: int | None,
        only_numbers: bool = False,
    ) -> None:
        self._rows, self._lanes = selection.rows, lanes
        self._seed, self._only_numbers = seed, only_numbers
        self._window_rows = parts.in_window(lanes.count) * parts.size
        # As many rows together whatever the number of lanes here, and of each at least those of a batch.
        of_batch = -(-lanes.size // self._window_rows)
        self._windows_together = max(of_batch, lanes.count // lanes.here)
        self._counts, self._first_rows = tf.constant(parts.rows), tf.constant(parts.first_row)
        self._first, self._skipped = tf.constant(parts.first_record), tf.constant(parts.skipped_rows)
        self._schema = selection.dataset.schema
        self._rows_in_record = selection.shards.rows_in_record
        self._fetch = None if only_numbers else Fetch(selection.shards)

    def rows_from(self, position: int | tf.Tensor) -> tf.data.Dataset:
        """(positions int64 [n], rows [n, …]) from there on: endless with a seed, else the one epoch."""
        position = tf.convert_to_tensor(position, tf.int64)
        lanes = self._lanes
        begin = position // lanes.global_batch * lanes.global_batch
        first = begin // self._rows
        start = tf.data.Dataset.from_tensors((first, lanes.rows_before(begin)))

        @as_written
        def from_start(epoch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return epoch, lanes.rows_before(epoch * self._rows)

        last = 0 if self._seed is None else tf.int64.max
        later = tf.data.Dataset.range(first + 1, last).map(from_start)
        units = start.concatenate(later).flat_map(as_written(self._epoch))
        return woven(units, lanes, position=position)

    def _epoch(self, epoch: tf.Tensor, numbers: tf.Tensor) -> tf.data.Dataset:
        """Units of an epoch (int64 []), from those on that hold the lanes' rows of these numbers."""
        of_all = rows_before(epoch * self._rows, self._lanes)
        sizes = rows_before((epoch + 1) * self._rows, self._lanes) - of_all
        order_of_parts = self._order_of_parts(epoch)
        ends = tf.cumsum(tf.gather(self._counts, order_of_parts))
        begins, sizes, firsts = map(self._lanes.of_all, (of_all, sizes, tf.cumsum(sizes, exclusive=True)))
        stretches = Stretches(ends, firsts, sizes)
        size, together = self._window_rows, self._windows_together
        slot = stretches.slot_of(numbers - begins)
        first_window = stretches.rows_before(slot[:, None])[:, 0] // size
        windows = tf.reduce_max(stretches.last_begins() // size - first_window) + 1

        @as_written
        def unit(number: tf.Tensor) -> Unit:
            window = first_window[:, None] + number + tf.range(together + 1, dtype=tf.int64)
            slots = stretches.slots_before(window * size)
            before = stretches.rows_before(slots)
            first, counts = before[:, 0], before[:, -1] - before[:, 0]
            chosen = stretches.slots(slots[:, 0], slots[:, -1])
            chosen = chosen._replace(parts=tf.gather(order_of_parts, chosen.parts))
            order_, rows = self._read(chosen, self._mixed(epoch, window[:, :-1], before))
            return Unit(first=begins + first, counts=counts, order=order_, rows=rows)

        units = tf.data.Dataset.range(0, windows, together)
        return units.map(unit, num_parallel_calls=UNITS_AT_ONCE, deterministic=True)

    def _order_of_parts(self, epoch: tf.Tensor) -> tf.Tensor:
        parts = self._counts.shape[0]
        if self._seed is None:
            return tf.range(parts, dtype=tf.int64)
        return order.shuffled_parts(parts, seed=self._seed, epoch=epoch)

    def _mixed(self, epoch: tf.Tensor, windows: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
        """The order of the rows inside each window: int32 [n], lane after lane.

        Args:
          windows: int64 [lanes, windows], their numbers.
          before: int64 [lanes, windows + 1], rows of the lane before each of them, and after the last.
        """
        rows = tf.reshape(before[:, 1:] - before[:, :-1], [-1])
        if self._seed is None:
            return tf.range(tf.cast(tf.reduce_sum(rows), tf.int32))
        lane = tf.range(self._lanes.first, self._lanes.end, dtype=tf.int64)
        number = tf.reshape(windows * self._lanes.count + lane[:, None], [-1])
        return order.shuffled_windows(rows, seed=self._seed, epoch=epoch, windows=number)

    def _read(self, chosen: Slots, mixed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Rows of the chosen parts, and which of them in the order `mixed`."""
        if self._only_numbers:
            first = tf.gather(self._first_rows, chosen.parts) + chosen.skipped
            return mixed, tf.ragged.range(first, first + chosen.rows).flat_values
        first = tf.gather(self._first, chosen.parts)
        if self._rows_in_record == 1:
            return mixed, self._records(first + chosen.skipped, chosen.rows)
        blocks = self._records(first, tf.ones_like(first))
        skipped = tf.gather(self._skipped, chosen.parts) + chosen.skipped
        begins = tf.range(tf.size(first, tf.int64)) * self._rows_in_record + skipped
        selected = tf.cast(tf.ragged.range(begins, begins + chosen.rows).flat_values, tf.int32)
        return tf.gather(selected, mixed), words_of_blocks(blocks, self._schema)

    def _records(self, first: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
        """Runs of records, of which each has so many from its first one on: string [n]."""
        runs = tf.data.Dataset.from_tensor_slices((first, counts))
        records = runs.flat_map(as_written(self._fetch.run))
        return records.batch(tf.reduce_sum(counts)).get_single_element()
