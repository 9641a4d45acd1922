"""Single records in a permutation of the whole epoch, each fetched by its offset: for large records."""

from collections.abc import Callable

import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.reading import order
from pipeline.data.reading.host_share import rebatched
from pipeline.data.reading.plan import ReadPlan
from pipeline.data.reading.record_fetch import Fetch
from pipeline.data.tracing import as_written

# Records that one call fetches: more save little more time (100 µs a record alone, 70 of 16, 53 of 32).
_TOGETHER_ROWS = 32
_TOGETHER_BYTES = 4 << 20  # 4 MiB
_CALLS_AT_ONCE = 2  # their order stays


def read(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """Endless (positions int64 [n], records string [n]); n is _TOGETHER_ROWS at most."""
    return _in_order(plan, batches, Fetch(plan.selection.shards).records)


def numbers(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """The same as `read`, with the number of each row over all shards, int64 [n], in place of the row."""
    return _in_order(plan, batches, tf.identity)


def _in_order(plan: ReadPlan, batches: int, take: Callable[[tf.Tensor], tf.Tensor]) -> tf.data.Dataset:
    selection = plan.selection

    @as_written
    def taken(positions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows = order.selected_rows(positions, selection, seed=plan.seed)
        # Copied, as groups may be made of them: TensorFlow logs every slice of a slice.
        return tf.raw_ops.DeepCopy(x=positions), take(rows)

    positions = plan.share.positions(plan.position, batches=batches)
    together = rebatched(positions, _rows_together(selection))
    return together.map(taken, num_parallel_calls=_CALLS_AT_ONCE, deterministic=True)


def _rows_together(selection: Selection) -> int:
    return max(1, min(_TOGETHER_ROWS, int(_TOGETHER_BYTES / selection.shards.mean_bytes)))
