"""The plan of a training stream, resolved once: its rows, their order, the way to read them, and a host's
share.
"""

import dataclasses
import functools
import math
import operator

import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import Selection
from pipeline.data.reading.positions import WayName, way_of
from pipeline.data.reading.sharding import Share
from pipeline.data.reading.window_parts import MOST_CANONICAL_SHARDS

# --- The data to train on: one selection, or several with a weight each, mixed in cycles of 1,000 positions.

CYCLE = 1000
_MOST_WEIGHT = 1e100  # sums of larger weights may be infinite


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """A selection and how much of the stream comes from it, relative to the other weights."""

    selection: Selection
    weight: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mixture:
    """Several selections as one; the first part gives the mixture's schema, statistics and epochs.

    Raises:
      InputError: a weight is not positive or gives less than one row in a cycle, or the parts differ in
        layout or schema.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        first = _kind(self.main)
        for part in self.parts:
            if _kind(part.selection) != first:
                raise _error(part, f"layout and schema {_kind(part.selection)}", f"{first}, as the first has")
        for part in self.parts:
            if not part.weight < _MOST_WEIGHT:
                raise _error(part, f"weight {part.weight:g}", f"a number below {_MOST_WEIGHT:g}")
        for part, count in zip(self.parts, self.counts, strict=True):
            if not (part.weight > 0 and count > 0):
                raise _error(part, f"weight {part.weight:g}", f"at least 1/{CYCLE:,} of all weights")

    @property
    def main(self) -> Selection:
        return self.parts[0].selection

    @property
    def counts(self) -> tuple[int, ...]:
        """Rows of each part in a cycle: the weights, rounded so that they add up (largest remainders)."""
        weights = [max(0.0, part.weight) for part in self.parts]
        # The weights are added from left to right: since Python 3.12, sum() rounds in another way, and other
        # counts would give another order.
        total = functools.reduce(operator.add, weights) or 1.0
        exact = [CYCLE * weight / total for weight in weights]
        counts = [math.floor(share) for share in exact]
        by_remainder = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
        for i in by_remainder[: CYCLE - sum(counts)]:
            counts[i] += 1
        return tuple(counts)

    @property
    def rows(self) -> int:
        """Positions of an epoch, in which the first part's rows are read once."""
        return math.ceil(self.main.rows * CYCLE / self.counts[0])


TrainingData = Selection | Mixture


def main_of(data: TrainingData) -> Selection:
    """The selection whose schema, statistics and epochs count."""
    return parts_of(data)[0]


def parts_of(data: TrainingData) -> tuple[Selection, ...]:
    return tuple(part.selection for part in data.parts) if isinstance(data, Mixture) else (data,)


def _kind(selection: Selection) -> tuple[str, str]:
    return selection.dataset.manifest.layout, selection.dataset.schema.fingerprint[:12]


def _error(part: Part, received: str, expected: str) -> InputError:
    return InputError(
        f"--config.mixture, dataset {part.selection.dataset}, split '{part.selection.expression}'",
        received=received,
        expected=expected,
        action="Correct the weight, or convert this data with the schema and layout of the first dataset.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadPlan:
    """Everything on which the order and the source of the rows depend; `plan_reading` makes one."""

    data: TrainingData
    ways: tuple[WayName, ...]  # one for each part of the data
    seed: int
    # The stream starts at this position: the number of examples of all hosts since the start of training. A
    # tensor, int64 [], in a graph that reads from any position.
    position: int | tf.Tensor = 0
    share: Share
    most_canonical_shards: int = MOST_CANONICAL_SHARDS  # 1 where no other host reads a part of the stream

    @property
    def selection(self) -> Selection:
        """The selection whose schema, statistics and epochs count."""
        return main_of(self.data)

    def of_service(self, index: int, *, count: int, cuts_batches: bool = False) -> "ReadPlan":
        """The part of this plan that the tf.data service `index` of `count` reads."""
        service = {"service_count": count, "service_index": index, "cuts_batches": cuts_batches}
        return dataclasses.replace(self, share=dataclasses.replace(self.share, **service))

    def of_part(self, number: int, *, seed: int, position: int | tf.Tensor, share: Share) -> "ReadPlan":
        """The plan for one part of a mixture, by itself."""
        return ReadPlan(
            data=parts_of(self.data)[number],
            ways=(self.ways[number],),
            seed=seed,
            position=position,
            share=share,
            most_canonical_shards=1,
        )


def plan_reading(
    data: TrainingData, *, share: Share, seed: int, position: int | tf.Tensor = 0, shuffle: str = "auto"
) -> ReadPlan:
    """Resolves `shuffle`, which is "auto", "global" or "windows", into the way in which each part is read.

    Args:
      position: examples consumed since the start of training; with the seed, the whole state.

    Raises:
      InputError: `shuffle` has another value.
    """
    ways = tuple(way_of(selection, shuffle) for selection in parts_of(data))
    return ReadPlan(data=data, ways=ways, seed=seed, position=position, share=share)
