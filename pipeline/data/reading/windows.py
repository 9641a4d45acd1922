"""Rows in windows: parts of the data are permuted over the epoch, and rows inside a window of some parts.

For small records, and for blocks that cannot be mapped into memory.
"""

import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.reading import order, window_parts
from pipeline.data.reading.block_rows import words_of_blocks
from pipeline.data.reading.plan import ReadPlan
from pipeline.data.reading.record_fetch import Fetch
from pipeline.data.tracing import as_written

_WINDOWS_AT_ONCE = 2  # their order stays


def read(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """Endless (positions int64 [n], rows [n, …]) of the plan's share."""
    rows = window_rows(plan.selection, seed=plan.seed, position=plan.position)
    return plan.share.of_groups(rows, batches=batches)


def numbers(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """The same as `read`, with the number of each row over all shards, int64 [n], in place of the row."""
    windows = _Windows(plan.selection, seed=plan.seed, only_numbers=True)
    return plan.share.of_groups(_from(windows, plan.position), batches=batches)


def window_rows(selection: Selection, *, seed: int, position: int | tf.Tensor) -> tf.data.Dataset:
    """Endless (positions int64 [n], rows [n, …]), a window at a time; the first one starts at `position`."""
    return _from(_Windows(selection, seed=seed), position)


def _from(windows: "_Windows", position: int | tf.Tensor) -> tf.data.Dataset:
    position = tf.convert_to_tensor(position, tf.int64)
    first_epoch, offset = position // windows.rows, position % windows.rows
    start = tf.data.Dataset.from_tensors((first_epoch, offset))
    from_start = as_written(lambda epoch: (epoch, tf.constant(0, tf.int64)))
    later = tf.data.Dataset.range(first_epoch + 1, tf.int64.max).map(from_start)
    return start.concatenate(later).flat_map(as_written(windows.epoch))


def stored_rows(selection: Selection) -> tf.data.Dataset:
    """Every row once, in stored order: (positions int64 [n], rows [n, …]), a window at a time."""
    return _Windows(selection, seed=None).epoch(tf.constant(0, tf.int64), tf.constant(0, tf.int64))


class _Windows:
    """Reads a selection in windows of its parts; with `seed` None in stored order.

    With `only_numbers` it gives the number of each row over all shards, and reads nothing.
    """

    def __init__(self, selection: Selection, *, seed: int | None, only_numbers: bool = False) -> None:
        parts = window_parts.cut(selection)
        self.rows = selection.rows
        self._seed, self._only_numbers, self._in_window = seed, only_numbers, parts.in_window
        self._first_rows = tf.constant(parts.first_row)
        self._first, self._records = tf.constant(parts.first_record), tf.constant(parts.records)
        self._skipped, self._counts = tf.constant(parts.skipped_rows), tf.constant(parts.rows)
        self._most_records = int(parts.records.max()) * parts.in_window
        self._schema = selection.dataset.schema
        self._rows_in_record = selection.shards.rows_in_record
        self._fetch = Fetch(selection.shards)

    def epoch(self, epoch: tf.Tensor, start: tf.Tensor) -> tf.data.Dataset:
        """The rows of an epoch from its row `start` on; both are int64 []."""
        order_of_parts = self._order_of_parts(epoch)
        counts = tf.gather(self._counts, order_of_parts)
        window_starts = tf.cumsum(counts, exclusive=True)[:: self._in_window]
        first = tf.searchsorted(window_starts, [start], side="right", out_type=tf.int64)[0] - 1

        @as_written
        def window(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            chosen = order_of_parts[number * self._in_window : (number + 1) * self._in_window]
            begin = window_starts[number]
            mixed = self._order_in_window(epoch, number, tf.reduce_sum(tf.gather(self._counts, chosen)))
            skipped = tf.maximum(start - begin, 0)
            in_epoch = begin + tf.range(skipped, tf.size(mixed, tf.int64))
            take = self._numbers if self._only_numbers else self._read
            return epoch * self.rows + in_epoch, take(chosen, mixed[skipped:])

        numbers = tf.data.Dataset.range(first, tf.size(window_starts, tf.int64))
        return numbers.map(window, num_parallel_calls=_WINDOWS_AT_ONCE, deterministic=True)

    def _order_of_parts(self, epoch: tf.Tensor) -> tf.Tensor:
        parts = self._counts.shape[0]
        if self._seed is None:
            return tf.range(parts, dtype=tf.int64)
        return order.shuffled_parts(parts, seed=self._seed, epoch=epoch)

    def _order_in_window(self, epoch: tf.Tensor, number: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        if self._seed is None:
            return tf.range(rows)
        return order.shuffled_window(rows, seed=self._seed, epoch=epoch, window=number)

    def _numbers(self, chosen: tf.Tensor, mixed: tf.Tensor) -> tf.Tensor:
        """The numbers of the chosen parts' rows over all shards, in the order `mixed`: int64 [n]."""
        first = tf.gather(self._first_rows, chosen)
        return tf.gather(tf.ragged.range(first, first + tf.gather(self._counts, chosen)).flat_values, mixed)

    def _read(self, chosen: tf.Tensor, mixed: tf.Tensor) -> tf.Tensor:
        """The rows of the chosen parts in the order `mixed`: string [n], or uint16 [n, words]."""
        if self._rows_in_record > 1:
            words = words_of_blocks(self._fetch.records(self._blocks(chosen)), self._schema)
            return tf.gather(words, tf.gather(self._selected(chosen), mixed))
        runs = (tf.gather(self._first, chosen), tf.gather(self._records, chosen))
        records = tf.data.Dataset.from_tensor_slices(runs).flat_map(as_written(self._fetch.run))
        return tf.gather(records.batch(self._most_records).get_single_element(), mixed)

    def _blocks(self, chosen: tf.Tensor) -> tf.Tensor:
        """Numbers of the chosen blocks, int64 [in_window]; a window of fewer repeats its last one."""
        filled = tf.minimum(tf.range(self._in_window), tf.size(chosen) - 1)
        return tf.gather(self._first, tf.gather(chosen, filled))

    def _selected(self, chosen: tf.Tensor) -> tf.Tensor:
        """Numbers of the selected rows among all rows of the chosen blocks: int64 [n]."""
        first = tf.range(tf.size(chosen, tf.int64)) * self._rows_in_record + tf.gather(self._skipped, chosen)
        last = first + tf.gather(self._counts, chosen)
        return tf.ragged.range(first, last).flat_values
