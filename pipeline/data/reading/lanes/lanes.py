"""Lanes of the stream: runs of each global batch, for each of which a part of the data of its own is read.

A global batch of B examples is cut into `count` equal runs; lane l gives the l-th run of every batch. In each
epoch the parts of the data are permuted and laid end to end, and lane l reads the l-th stretch of their rows,
as many as it has positions in the epoch. A host that feeds some replicas reads the lanes that these take.
So the order depends on the seed, the data and the global batch, never on the hosts. MosaicML Streaming's
canonical nodes (`num_canonical_nodes`) serve the same end.
"""

import dataclasses
import math

import tensorflow as tf

from pipeline.data.reading.lanes.window_parts import WindowParts
from pipeline.data.reading.permutation import quotient

MOST_LANES = 64
# Two lanes may share the part where their stretches meet, and each reads it.
LEAST_PARTS = 16  # of a lane
MOST_BYTES = 32 << 20  # 32 MiB of windows: every lane has one open


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lanes:
    """The lanes from `first` to before `end`, of `count`; lane numbers below are those over all lanes.

    The rows of a lane are numbered from the start of training on, as positions are.
    """

    global_batch: int
    count: int
    first: int
    end: int

    @property
    def size(self) -> int:
        """Examples of a global batch that a lane gives."""
        return self.global_batch // self.count

    @property
    def run(self) -> tuple[int, int]:
        """The examples of a global batch that these lanes give: from the first to after the last."""
        return self.first * self.size, self.end * self.size

    @property
    def here(self) -> int:
        return self.end - self.first

    def rows_before(self, position: tf.Tensor) -> tf.Tensor:
        """Rows of these lanes at positions before this one, int64 []: int64 [here]."""
        return self.of_all(rows_before(position, self))

    def of_all(self, values: tf.Tensor) -> tf.Tensor:
        """Those of these lanes among the values of all lanes, [count] → [here]."""
        return tf.gather(
            values, tf.range(self.first, self.end)
        )  # a slice logs an error wherever it is changed

    def places_before(self, position: tf.Tensor) -> tf.Tensor:
        """Rows of all these lanes at positions before this one, int64 [] both."""
        return tf.reduce_sum(self.rows_before(position))

    def places(self, numbers: tf.Tensor, lanes: tf.Tensor) -> tf.Tensor:
        """How many rows of all these lanes come before a row of one, by its number there.

        Args:
          numbers: from 0 on, of any integer type and shape.
          lanes: the numbers of the lanes among all, of a shape that goes with them.
        """
        size = tf.constant(self.size, numbers.dtype)
        batches = quotient(numbers, size)
        in_run = tf.cast(lanes - self.first, numbers.dtype) * size + (numbers - batches * size)
        return batches * tf.constant(self.here * self.size, numbers.dtype) + in_run

    def positions(self, start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
        """The positions of the places from `start` to before `end`, both int64 []: int64 [n]."""
        places = tf.range(start, end)
        if self.here == self.count:
            return places
        first, after = self.run
        batches = places // (after - first)
        return places + batches * (self.global_batch - (after - first)) + first

    def of_run(self, first: int, end: int) -> "Lanes":
        """Those that give the examples of a global batch from `first` to before `end`."""
        return dataclasses.replace(self, first=first // self.size, end=-(-end // self.size))


def rows_before(position: tf.Tensor, lanes: Lanes) -> tf.Tensor:
    """Rows of each lane, those of other hosts too, at positions before this one: int64 [count]."""
    starts = tf.range(0, lanes.global_batch, lanes.size, dtype=tf.int64)
    batches, rest = position // lanes.global_batch, position % lanes.global_batch
    return batches * lanes.size + tf.clip_by_value(rest - starts, 0, lanes.size)


def all_lanes(parts: WindowParts, *, global_batch: int, most: int = MOST_LANES) -> Lanes:
    """The largest number of lanes, a power of two, that divides the global batch and has parts for each."""
    count = math.gcd(global_batch, most)
    while count > 1 and (len(parts.rows) < LEAST_PARTS * count or parts.bytes * count > MOST_BYTES):
        count //= 2
    return Lanes(global_batch=global_batch, count=count, first=0, end=count)
