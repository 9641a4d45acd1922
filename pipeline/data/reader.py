"""Rows of a selection from any position on, for ever in a seeded shuffled order, or once as they are stored.

Elements are (places int64 [n], rows [n, …]): a place counts the rows since the start of training; a row is a
serialized record (string) or, from blocks, its words (uint16 [n, words]). Three ways lead there:

  single    every record is fetched by its offset, in a permutation of the whole epoch: for large records
  windows   pieces of the data are permuted over the epoch, and rows inside a window of pieces: small records
  mapped    local blocks are mapped into memory, rows gathered in a permutation of the whole epoch
"""

import dataclasses
from collections.abc import Callable
from typing import Literal

import tensorflow as tf

from pipeline.data import order, pieces
from pipeline.data.block_rows import words_of_blocks
from pipeline.data.errors import InputError
from pipeline.data.fetch import Fetch
from pipeline.data.graph import as_written
from pipeline.data.mapped import MappedRows
from pipeline.data.selection import Selection
from pipeline.data.share import Share, rebatched

Way = Literal["single", "windows", "mapped"]

SINGLE_RECORD_BYTES = 4 << 10  # 4 KiB: from there on, decoding a record costs more than fetching it alone
# Single records in one call: more save little more time (100 µs a record alone, 70 of 16, 53 of 32).
TOGETHER_ROWS = 32
TOGETHER_BYTES = 4 << 20  # 4 MiB
READS_AT_ONCE = 2  # calls, windows; their order stays


def way_of(selection: Selection, shuffle: str) -> Way:
    """How rows are read where the config says `shuffle`: "auto", "global" or "windows"."""
    if shuffle not in ("auto", "global", "windows"):
        raise InputError(
            "--config.shuffle",
            received=shuffle,
            expected="'auto', 'global' or 'windows'",
            action="Choose one; 'auto' takes 'windows' for small records and 'global' for all others.",
        )
    if shuffle == "windows":
        return "windows"
    if selection.shards.rows_in_record > 1:
        return "mapped"
    is_large = selection.shards.mean_bytes >= SINGLE_RECORD_BYTES
    return "single" if is_large or shuffle == "global" else "windows"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stream:
    """Which endless order rows come in, and from which place in it on."""

    shuffle: str
    seed: int
    position: int


def share_of(selection: Selection, mine: Share, stream: Stream, *, batches: int) -> tf.data.Dataset:
    """Endless (places, rows) that `mine` has of the stream, as many at once as are read together.

    Args:
      batches: global batches that are taken at once, where others take theirs of them.
    """
    way, seed = way_of(selection, stream.shuffle), stream.seed
    if way == "windows":
        return mine.of_groups(window_rows(selection, seed=seed, position=stream.position), batches=batches)
    positions = mine.positions(stream.position, batches=batches)
    if way == "mapped":
        return positions.map(gather_mapped(selection, seed=seed))
    return single_records(selection, positions, seed=seed)


def single_records(selection: Selection, positions: tf.data.Dataset, *, seed: int) -> tf.data.Dataset:
    """(places int64 [n], records string [n]) at `positions`, int64 [m] each; n is TOGETHER_ROWS or less."""
    fetch = Fetch(selection.shards)
    shuffled = _shuffled(selection, seed=seed)

    @as_written
    def records(places: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # Copied, as groups may be made of them: of slices that are sliced again, TensorFlow logs every one.
        return tf.raw_ops.DeepCopy(x=places), fetch.records(shuffled(places))

    together = rebatched(positions, _rows_together(selection))
    return together.map(records, num_parallel_calls=READS_AT_ONCE, deterministic=True)


def gather_mapped(selection: Selection, *, seed: int) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """A function of places, int64 [n], to (places, words)."""
    mapped, shuffled = MappedRows(selection), _shuffled(selection, seed=seed)

    @as_written
    def gathered(places: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return places, mapped.gather(shuffled(places))

    return gathered


def window_rows(selection: Selection, *, seed: int, position: int) -> tf.data.Dataset:
    """Endless (places, rows), as many rows at once as a window has; the first ones start at `position`."""
    windows = _Windows(selection, seed=seed)
    first_epoch, offset = divmod(position, selection.rows)
    start = tf.data.Dataset.from_tensors((tf.constant(first_epoch, tf.int64), tf.constant(offset, tf.int64)))
    from_start = as_written(lambda epoch: (epoch, tf.constant(0, tf.int64)))
    later = tf.data.Dataset.range(first_epoch + 1, tf.int64.max).map(from_start)
    return start.concatenate(later).flat_map(as_written(windows.epoch))


def stored_rows(selection: Selection) -> tf.data.Dataset:
    """Every row once in stored order: (places, rows)."""
    return _Windows(selection, seed=None).epoch(tf.constant(0, tf.int64), tf.constant(0, tf.int64))


class _Windows:
    """Reads a selection in windows of pieces; `seed` None: as they are stored."""

    def __init__(self, selection: Selection, *, seed: int | None) -> None:
        cut = pieces.cut(selection)
        self._seed, self._rows, self._in_window = seed, selection.rows, cut.in_window
        self._first, self._records = tf.constant(cut.first_record), tf.constant(cut.records)
        self._skipped, self._counts = tf.constant(cut.skipped_rows), tf.constant(cut.rows)
        self._most_records = int(cut.records.max()) * cut.in_window
        self._schema = selection.dataset.schema
        self._rows_in_record = selection.shards.rows_in_record
        self._fetch = Fetch(selection.shards)

    def epoch(self, epoch: tf.Tensor, start: tf.Tensor) -> tf.data.Dataset:
        """The rows of an epoch from place `start` in it on."""
        order_of_pieces = self._order_of_pieces(epoch)
        counts = tf.gather(self._counts, order_of_pieces)
        window_starts = tf.cumsum(counts, exclusive=True)[:: self._in_window]
        first = tf.searchsorted(window_starts, [start], side="right", out_type=tf.int64)[0] - 1

        @as_written
        def window(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            chosen = order_of_pieces[number * self._in_window : (number + 1) * self._in_window]
            begin = window_starts[number]
            mixed = self._order_in_window(epoch, number, tf.reduce_sum(tf.gather(self._counts, chosen)))
            skipped = tf.maximum(start - begin, 0)
            places = begin + tf.range(skipped, tf.size(mixed, tf.int64))
            return epoch * self._rows + places, self._read(chosen, mixed[skipped:])

        numbers = tf.data.Dataset.range(first, tf.size(window_starts, tf.int64))
        return numbers.map(window, num_parallel_calls=READS_AT_ONCE, deterministic=True)

    def _order_of_pieces(self, epoch: tf.Tensor) -> tf.Tensor:
        pieces_ = self._counts.shape[0]
        if self._seed is None:
            return tf.range(pieces_, dtype=tf.int64)
        return order.shuffled_pieces(pieces_, seed=self._seed, epoch=epoch)

    def _order_in_window(self, epoch: tf.Tensor, number: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        if self._seed is None:
            return tf.range(rows)
        return order.shuffled_window(rows, seed=self._seed, epoch=epoch, window=number)

    def _read(self, chosen: tf.Tensor, mixed: tf.Tensor) -> tf.Tensor:
        """The rows of the chosen pieces in the order `mixed`: string [n], or uint16 [n, words]."""
        if self._rows_in_record > 1:
            words = words_of_blocks(self._fetch.records(self._blocks(chosen)), self._schema)
            return tf.gather(words, tf.gather(self._counted(chosen), mixed))
        runs = (tf.gather(self._first, chosen), tf.gather(self._records, chosen))
        records = tf.data.Dataset.from_tensor_slices(runs).flat_map(as_written(self._fetch.run))
        return tf.gather(records.batch(self._most_records).get_single_element(), mixed)

    def _blocks(self, chosen: tf.Tensor) -> tf.Tensor:
        """Numbers of the chosen blocks, int64 [in_window]; where a window has fewer, the last one again."""
        places = tf.minimum(tf.range(self._in_window), tf.size(chosen) - 1)
        return tf.gather(self._first, tf.gather(chosen, places))

    def _counted(self, chosen: tf.Tensor) -> tf.Tensor:
        """Of all rows of the chosen blocks, those that are selected: int64 [n]."""
        first = tf.range(tf.size(chosen, tf.int64)) * self._rows_in_record + tf.gather(self._skipped, chosen)
        last = first + tf.gather(self._counts, chosen)
        return tf.ragged.range(first, last).flat_values


def _rows_together(selection: Selection) -> int:
    """How many single records are fetched at once."""
    return max(1, min(TOGETHER_ROWS, int(TOGETHER_BYTES / selection.shards.mean_bytes)))


def _shuffled(selection: Selection, *, seed: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """Of places int64 [n], the rows over all shards that a permutation of the whole epoch puts there."""
    return lambda places: _numbers(selection, order.shuffled_rows(places, rows=selection.rows, seed=seed))


def _numbers(selection: Selection, rows: tf.Tensor) -> tf.Tensor:
    """Numbers over all shards of the selection's rows int64 [n]."""
    if len(selection.ranges) == 1:
        return rows + selection.ranges[0][0]
    firsts = tf.constant([first for first, _ in selection.ranges], tf.int64)
    sizes = tf.constant([last - first for first, last in selection.ranges], tf.int64)
    starts = tf.cumsum(sizes, exclusive=True)
    part = tf.searchsorted(starts, rows, side="right") - 1
    return rows - tf.gather(starts, part) + tf.gather(firsts, part)
