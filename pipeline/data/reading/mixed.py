"""The stream of a mixture: exact over every cycle, and the same from any position.

In each cycle every part gives its number of rows, the next ones of its own shuffled epochs, and the rows of
the cycle are permuted. So the row at a position is a pure function of the seed, and the stream starts at any
position without reading what comes before. A part of few rows and much weight begins its next epoch earlier.

Cycles of small rows are read and mixed. Of large ones, such as photographs, only the numbers are mixed, and
each record is fetched when its position comes: two cycles of photographs would take gigabytes.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from pipeline.data.dataset import record_table
from pipeline.data.reading import order
from pipeline.data.reading.fetching.fetched import fetched
from pipeline.data.reading.fetching.record_fetch import Fetch
from pipeline.data.reading.host_share import Share, rebatched
from pipeline.data.reading.mixture import CYCLE, Mixture
from pipeline.data.reading.plan import SINGLE_RECORD_BYTES, ReadPlan
from pipeline.data.tracing import as_written

_CYCLES_AT_ONCE = 2  # their order stays
_SEED_STRIDE = 1 << 32  # the parts' seeds lie so far apart that no config's seed meets another part's


def read(
    plan: ReadPlan, batches: int, *, read_part: Callable[[int, ReadPlan], tf.data.Dataset]
) -> tf.data.Dataset:
    """Endless (positions int64 [n], rows [n, …]) that the plan's share has, of a mixture.

    Args:
      batches: global batches that are read at once, where other hosts read their share of them.
      read_part: the stream of a part of the mixture, of its number and plan.
    """
    return plan.share.of_groups(_cycles(plan, plan.data, read_part), batches=batches)


def is_large(mixture: Mixture) -> bool:
    """Whether the records of a cycle are too large to be held."""
    return _mean_bytes(mixture) >= SINGLE_RECORD_BYTES


def fetch(plan: ReadPlan, numbers: tf.data.Dataset) -> tf.data.Dataset:
    """(positions int64 [n], records string [n]) of (positions, numbers int64 [n, 2]): part, and row of it."""
    shards = [part.selection.shards for part in plan.data.parts]
    starts = tf.constant(np.cumsum([0, *(each.records for each in shards[:-1])]))

    @as_written
    def numbers_of(positions: tf.Tensor, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # Copied, as groups may be made of them: TensorFlow logs every slice of a slice.
        return tf.raw_ops.DeepCopy(x=positions), tf.gather(starts, numbers[:, 0]) + numbers[:, 1]

    fetch_ = Fetch(record_table.joined(shards))
    return fetched(numbers, numbers_of, fetch_, mean_bytes=_mean_bytes(plan.data))


def _mean_bytes(mixture: Mixture) -> float:
    """Of the records of a cycle; 0 of blocks, whose rows are small."""
    shards = [part.selection.shards for part in mixture.parts]
    if shards[0].rows_in_record > 1:
        return 0.0
    return sum(n * each.mean_bytes for n, each in zip(mixture.counts, shards, strict=True)) / CYCLE


def _cycles(
    plan: ReadPlan, mixture: Mixture, read_part: Callable[[int, ReadPlan], tf.data.Dataset]
) -> tf.data.Dataset:
    """A cycle an element; the first one starts at the plan's position."""
    position = tf.convert_to_tensor(plan.position, tf.int64)
    first_cycle, offset = position // CYCLE, position % CYCLE

    def rows_of(number: int, count: int) -> tf.data.Dataset:
        part = plan.of_part(
            number,
            seed=plan.seed + number * _SEED_STRIDE,
            position=first_cycle * count,
            share=Share(global_batch=count),
        )
        return rebatched(read_part(number, part), count).map(_rows_only)

    @as_written
    def mix(cycle: tf.Tensor, parts: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, tf.Tensor]:
        size = tf.constant(CYCLE, tf.int64)
        mixed = order.shuffled_window(size, seed=plan.seed, epoch=cycle, window=order.OF_A_MIXTURE)
        skipped = tf.where(cycle == first_cycle, offset, tf.zeros_like(offset))
        positions = cycle * CYCLE + tf.range(size)
        return positions[skipped:], tf.gather(tf.concat(parts, axis=0), mixed[skipped:])

    parts = [rows_of(number, count) for number, count in enumerate(mixture.counts)]
    cycles = tf.data.Dataset.range(first_cycle, tf.int64.max)
    return tf.data.Dataset.zip(cycles, tf.data.Dataset.zip(*parts)).map(
        mix, num_parallel_calls=_CYCLES_AT_ONCE, deterministic=True
    )


@as_written
def _rows_only(_: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    return rows
