"""The rows of chosen parts as they are read, each with the place that it is to have."""

import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.reading.block_rows import words_of_blocks
from pipeline.data.reading.fetching.record_fetch import Fetch
from pipeline.data.reading.lanes.stretches import Slots
from pipeline.data.reading.lanes.weaving import NOWHERE
from pipeline.data.reading.lanes.window_parts import WindowParts
from pipeline.data.tracing import apart

_MOST_USUAL = 64  # blocks: a dataset of each is traced


class PartNumbers:
    """Gives the number of each row over all shards, int64 [r], and reads nothing."""

    def __init__(self, parts: WindowParts) -> None:
        self._first_rows = tf.constant(parts.first_row)

    def __call__(self, chosen: Slots, places: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        first = tf.gather(self._first_rows, chosen.parts) + chosen.skipped
        return places, tf.ragged.range(first, first + chosen.rows).flat_values


class PartRows:
    """Reads the rows of parts.

    Args:
      usual: how many parts are mostly chosen.
    """

    def __init__(self, selection: Selection, parts: WindowParts, *, usual: int) -> None:
        self._usual, self._schema = usual, selection.dataset.schema
        self._first, self._skipped = tf.constant(parts.first_record), tf.constant(parts.skipped_rows)
        self._rows_in_record = selection.shards.rows_in_record
        self._fetch = Fetch(selection.shards)
        # One function for all groups: hundreds of datasets of one record would take seconds to trace.
        some = tf.TensorSpec([None], tf.int64)
        self._words, self._runs = apart(self._words_of, some), apart(self._fetch.runs, some, some)

    def __call__(self, chosen: Slots, places: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The places, int32 [r], of the r rows that are read of the chosen parts, and these, [r, …].

        Args:
          places: of those of them that are wanted, int32 [n].
        """
        first = tf.gather(self._first, chosen.parts)
        if self._rows_in_record == 1:
            return places, self._runs(first + chosen.skipped, chosen.rows)
        words = self._words(first)
        read = tf.shape(words)[0]
        # Nearly always whole blocks.
        is_whole = tf.size(places) == read
        return tf.cond(is_whole, lambda: places, lambda: self._placed(chosen, places, read)), words

    def _placed(self, chosen: Slots, places: tf.Tensor, read: tf.Tensor) -> tf.Tensor:
        """Places of all rows that are read, int32 [read]."""
        skipped = tf.gather(self._skipped, chosen.parts) + chosen.skipped
        begins = tf.range(tf.size(skipped, tf.int64)) * self._rows_in_record + skipped
        wanted = tf.ragged.range(begins, begins + chosen.rows).flat_values
        return tf.tensor_scatter_nd_update(tf.fill([read], NOWHERE), wanted[:, None], places)

    def _words_of(self, numbers: tf.Tensor) -> tf.Tensor:
        """Rows of the blocks of these numbers, int64 [n]; the usual number of them costs a third less."""

        def any_number() -> tf.Tensor:
            return self._runs(numbers, tf.ones_like(numbers))

        def usual() -> tf.Tensor:
            # Filled up, though there are so many: TensorFlow may compute it ahead of the branch, of fewer.
            filled = tf.pad(numbers, [[0, self._usual]])[: self._usual]
            return self._fetch.records(tf.reshape(filled, [self._usual]))

        # Where reads are slow, `runs` has many in flight.
        is_apart = self._fetch.in_flight.is_slow or self._usual > _MOST_USUAL
        is_usual = tf.size(numbers) == self._usual
        blocks = any_number() if is_apart else tf.cond(is_usual, usual, any_number)
        return words_of_blocks(blocks, self._schema)
