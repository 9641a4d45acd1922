"""Records one by one, each by its offset, in a given order: as many reads at once as the storage asks for."""

from collections.abc import Callable

import tensorflow as tf

from pipeline.data.reading.fetching.record_fetch import Fetch, Pieces
from pipeline.data.reading.host_share import rebatched
from pipeline.data.tracing import as_written

# Records that one call fetches: more save little more time, and take longer to trace (records of 221 bytes,
# CPU µs each: 23 of 32, 19 of 64).
_TOGETHER_ROWS = 64
_TOGETHER_BYTES = 4 << 20  # 4 MiB
CALLS_AT_ONCE = 2  # their order stays
# Records that one call reads in turn, where reads are slow. Of 30 KB, CPU µs each at 10 ms a read: 342 where
# it is one, 203 of 4, 189 of 8; but each waits for those before it.
_MOST_IN_TURN = 4


def fetched(
    elements: tf.data.Dataset,
    numbers: Callable[..., tuple[tf.Tensor, tf.Tensor]],
    fetch: Fetch,
    *,
    mean_bytes: float,
) -> tf.data.Dataset:
    """(positions int64 [n], records string [n]) of elements [m, …]; n is `_TOGETHER_ROWS` at most.

    Args:
      numbers: an element's positions, and the numbers of their records, both int64 [n].
      mean_bytes: of a record.
    """
    if fetch.in_flight.is_slow:
        return _side_by_side(elements, numbers, fetch, mean_bytes=mean_bytes)
    together = rebatched(elements, rows_together(mean_bytes))

    @as_written
    def records(*element: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        positions, those = numbers(*element)
        return positions, fetch.records(those)

    return together.map(records, num_parallel_calls=CALLS_AT_ONCE, deterministic=True)


def rows_together(mean_bytes: float) -> int:
    """Records of this mean size that one call fetches."""
    return max(1, min(_TOGETHER_ROWS, int(_TOGETHER_BYTES / mean_bytes)))


def _side_by_side(
    elements: tf.data.Dataset,
    numbers: Callable[..., tuple[tf.Tensor, tf.Tensor]],
    fetch: Fetch,
    *,
    mean_bytes: float,
) -> tf.data.Dataset:
    """Of slow reads: many calls at once, each of a few records, which wait for each other."""
    together = rows_together(mean_bytes)
    few = min(_MOST_IN_TURN, together, fetch.in_flight.records_each(mean_bytes))

    @as_written
    def pieces(*element: tf.Tensor) -> tuple[tf.Tensor, Pieces]:
        positions, those = numbers(*element)
        found = positions, fetch.pieces_of(those)
        return tf.nest.map_structure(lambda each: tf.reshape(each, [-1, few]), found)

    @as_written
    def records(positions: tf.Tensor, found: Pieces) -> tuple[tf.Tensor, tf.Tensor]:
        return positions, fetch.few(found)

    calls = fetch.in_flight.records(mean_bytes)
    grouped = rebatched(elements, together // few * few).map(pieces).unbatch()
    return rebatched(grouped.map(records, num_parallel_calls=calls, deterministic=True), together)
