"""Several datasets in one stream, each with its weight: exact over every cycle of 1,000 places.

In each cycle every dataset gives its number of rows, the next of its own shuffled epochs, and the rows of
the cycle are permuted. So the row at a place is a pure function of the seed, and a stream goes on from any
place without reading what came before. A dataset of few rows and much weight begins its next epoch earlier.
"""

import dataclasses
import math

import tensorflow as tf

from pipeline.data import order, reader
from pipeline.data.errors import InputError
from pipeline.data.graph import as_written
from pipeline.data.reader import Stream
from pipeline.data.selection import Selection
from pipeline.data.share import Share, rebatched

CYCLE = 1000
SEED_STRIDE = 1 << 32  # the parts' seeds lie so far apart that no config's seed meets another part's


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """A selection and how much of the stream comes from it, relative to the other weights."""

    selection: Selection
    weight: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mixture:
    """The first part is the one whose schema, statistics and epochs count.

    Raises:
      InputError: a weight is not positive, gives less than a row a cycle, or a part has other records.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        first = _kind(self.main)
        for part in self.parts:
            if _kind(part.selection) != first:
                raise _error(part, f"layout and schema {_kind(part.selection)}", f"{first}, as the first has")
        for part, count in zip(self.parts, self.counts, strict=True):
            if not (part.weight > 0 and count > 0):
                raise _error(part, f"weight {part.weight:g}", f"at least 1/{CYCLE:,} of all weights")

    @property
    def main(self) -> Selection:
        return self.parts[0].selection

    @property
    def counts(self) -> tuple[int, ...]:
        """Rows of each part in a cycle: the weights rounded so that they add up (largest remainders)."""
        total = sum(max(0.0, part.weight) for part in self.parts) or 1.0
        exact = [CYCLE * max(0.0, part.weight) / total for part in self.parts]
        counts = [math.floor(share) for share in exact]
        by_remainder = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
        for i in by_remainder[: CYCLE - sum(counts)]:
            counts[i] += 1
        return tuple(counts)

    @property
    def rows(self) -> int:
        """An epoch: places in which the first part's rows are read once."""
        return math.ceil(self.main.rows * CYCLE / self.counts[0])


Source = Selection | Mixture  # what a run trains on


def main_of(source: Source) -> Selection:
    """The selection whose schema, statistics and epochs count."""
    return source.main if isinstance(source, Mixture) else source


def mixed_rows(mixture: Mixture, stream: Stream) -> tf.data.Dataset:
    """Endless (places int64 [n], rows [n, …]), a cycle at a time; the first ones start at its position."""
    first_cycle, offset = divmod(stream.position, CYCLE)

    def rows_of(number: int) -> tf.data.Dataset:
        part, count = mixture.parts[number], mixture.counts[number]
        own = Stream(
            shuffle=stream.shuffle, seed=stream.seed + number * SEED_STRIDE, position=first_cycle * count
        )
        rows = reader.share_of(part.selection, Share(global_batch=count), own, batches=1)
        return rebatched(rows, count).map(_second)

    @as_written
    def mix(cycle: tf.Tensor, parts: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, tf.Tensor]:
        size = tf.constant(CYCLE, tf.int64)
        mixed = order.shuffled_window(size, seed=stream.seed, epoch=cycle, window=order.OF_A_MIXTURE)
        skipped = tf.where(cycle == first_cycle, offset, 0)
        places = cycle * CYCLE + tf.range(size)
        return places[skipped:], tf.gather(tf.concat(parts, axis=0), mixed[skipped:])

    parts = [rows_of(number) for number in range(len(mixture.parts))]
    cycles = tf.data.Dataset.range(first_cycle, tf.int64.max)
    return tf.data.Dataset.zip(cycles, tf.data.Dataset.zip(*parts)).map(
        mix, num_parallel_calls=reader.READS_AT_ONCE, deterministic=True
    )


@as_written
def _second(_: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    return rows


def _kind(selection: Selection) -> tuple[str, str]:
    return selection.dataset.manifest.layout, selection.dataset.schema.fingerprint[:12]


def _error(part: Part, received: str, expected: str) -> InputError:
    return InputError(
        f"--config.mixture, dataset {part.selection.dataset.directory}, split '{part.selection.expression}'",
        received=received,
        expected=expected,
        action="Correct the weight, or convert this data with the schema and layout of the first dataset.",
    )
