"""Single records in a permutation of the whole epoch, each fetched by its offset: for large records."""

from collections.abc import Callable

import tensorflow as tf

from pipeline.data.reading import order
from pipeline.data.reading.fetching.fetched import CALLS_AT_ONCE, fetched, rows_together
from pipeline.data.reading.fetching.record_fetch import Fetch
from pipeline.data.reading.host_share import rebatched
from pipeline.data.reading.plan import ReadPlan
from pipeline.data.tracing import as_written


def read(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """Endless (positions int64 [n], records string [n])."""
    shards = plan.selection.shards
    positions = plan.share.positions(plan.position, batches=batches)
    return fetched(positions, _numbers_of(plan), Fetch(shards), mean_bytes=shards.mean_bytes)


def numbers(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """The same as `read`, with the number of each row over all shards, int64 [n], in place of the row."""
    positions = plan.share.positions(plan.position, batches=batches)
    together = rebatched(positions, rows_together(plan.selection.shards.mean_bytes))
    return together.map(_numbers_of(plan), num_parallel_calls=CALLS_AT_ONCE, deterministic=True)


def _numbers_of(plan: ReadPlan) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    @as_written
    def numbers_of(positions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # Copied, as groups may be made of them: TensorFlow logs every slice of a slice.
        return tf.raw_ops.DeepCopy(x=positions), order.selected_rows(
            positions, plan.selection, seed=plan.seed
        )

    return numbers_of
