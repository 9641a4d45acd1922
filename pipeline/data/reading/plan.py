"""How a training stream is read, resolved once: which rows, in which way and order, from where, for whom."""

import dataclasses
from typing import Literal

import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.errors import InputError
from pipeline.data.reading.host_share import Share
from pipeline.data.reading.lanes.lanes import MOST_LANES
from pipeline.data.reading.mixture import TrainingData, main_of, parts_of

SINGLE_RECORD_BYTES = 4 << 10  # 4 KiB: from there on, decoding a record costs more than fetching it alone
SHUFFLES = ("auto", "global", "windows")

WayName = Literal["single", "windows", "mapped"]  # the keys of stream.WAYS


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadPlan:
    """All that the order and the origin of the rows depend on; `plan_reading` makes one."""

    data: TrainingData
    ways: tuple[WayName, ...]  # one for each part of the data
    seed: int
    # The stream starts here: examples of all hosts since the start of training. A tensor, int64 [], in a
    # graph that reads from any position.
    position: int | tf.Tensor = 0
    share: Share
    most_lanes: int = MOST_LANES  # 1 where no other host reads a part of it

    @property
    def selection(self) -> Selection:
        """The selection whose schema, statistics and epochs count."""
        return main_of(self.data)

    def of_service(self, index: int, *, count: int, cuts_batches: bool = False) -> "ReadPlan":
        """What the tf.data service `index` of `count` reads of this."""
        share = dataclasses.replace(
            self.share, service_count=count, service_index=index, cuts_batches=cuts_batches
        )
        return dataclasses.replace(self, share=share)

    def of_part(self, number: int, *, seed: int, position: int | tf.Tensor, share: Share) -> "ReadPlan":
        """How one part of a mixture is read, by itself."""
        return ReadPlan(
            data=parts_of(self.data)[number],
            ways=(self.ways[number],),
            seed=seed,
            position=position,
            share=share,
            most_lanes=1,
        )


def plan_reading(
    data: TrainingData, *, share: Share, seed: int, position: int | tf.Tensor = 0, shuffle: str = "auto"
) -> ReadPlan:
    """Resolves `shuffle`, which is "auto", "global" or "windows", into the way in which each part is read.

    Args:
      position: examples consumed since the start of training; with the seed, the whole state.

    Raises:
      InputError: `shuffle` is none of the three.
    """
    if shuffle not in SHUFFLES:
        raise InputError(
            "--config.shuffle",
            received=shuffle,
            expected="'auto', 'global' or 'windows'",
            action="Choose one; 'auto' takes 'windows' for small records and 'global' for all others.",
        )
    ways = tuple(_way(selection, shuffle) for selection in parts_of(data))
    return ReadPlan(data=data, ways=ways, seed=seed, position=position, share=share)


def _way(selection: Selection, shuffle: str) -> WayName:
    if shuffle == "windows":
        return "windows"
    if selection.shards.rows_in_record > 1:
        return "mapped"
    is_large = selection.shards.mean_bytes >= SINGLE_RECORD_BYTES
    return "single" if is_large or shuffle == "global" else "windows"
