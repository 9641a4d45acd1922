"""The windows of lanes, read unit by unit: a unit is as many windows of each lane as are read together."""

import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.reading import order
from pipeline.data.reading.lanes.lanes import Lanes
from pipeline.data.reading.lanes.part_rows import PartNumbers, PartRows
from pipeline.data.reading.lanes.stretches import Slots
from pipeline.data.reading.lanes.unit_places import UnitPlace, unit_places
from pipeline.data.reading.lanes.unit_size import lanes_of_group, unit_size
from pipeline.data.reading.lanes.weaving import Unit, woven
from pipeline.data.reading.lanes.window_parts import WindowParts
from pipeline.data.tracing import as_written

UNITS_AT_ONCE = 2  # their order stays


class LaneWindows:
    """Reads some lanes of a selection in windows of its parts.

    With `only_numbers` it gives the number of each row over all shards, and reads nothing.
    """

    def __init__(
        self,
        selection: Selection,
        parts: WindowParts,
        lanes: Lanes,
        *,
        seed: int,
        only_numbers: bool = False,
    ) -> None:
        self._rows, self.lanes = selection.rows, lanes
        self._seed = seed
        is_of_blocks = selection.shards.rows_in_record > 1
        self._size = unit_size(parts, lanes, is_of_blocks=is_of_blocks)
        of_lane = self._size.windows * parts.in_window(lanes.count)  # parts
        of_group = lanes_of_group(
            lanes.here,
            parts=of_lane,
            in_windows=parts.in_windows,
            is_of_blocks=is_of_blocks,
        )
        self._group_sizes = [min(of_group, lanes.here - i) for i in range(0, lanes.here, of_group)]
        self._counts = tf.constant(parts.rows)
        usual = of_lane * of_group
        self._read = PartNumbers(parts) if only_numbers else PartRows(selection, parts, usual=usual)

    def rows_from(self, position: int | tf.Tensor) -> tf.data.Dataset:
        """Endless (positions int64 [n], rows [n, …]) from there on."""
        position, lanes = tf.convert_to_tensor(position, tf.int64), self.lanes
        begin = position // lanes.global_batch * lanes.global_batch
        in_turn = unit_places(
            self._counts, lanes, rows=self._rows, seed=self._seed, begin=begin, unit=self._size
        )
        units = in_turn.map(as_written(self._unit_at), num_parallel_calls=UNITS_AT_ONCE, deterministic=True)
        return woven(units, lanes, position=position)

    def _unit_at(self, at: UnitPlace) -> Unit:
        stretches, (size, together) = at.stretches, self._size
        window = at.window[:, None] + tf.range(together + 1, dtype=tf.int64)
        slots = stretches.slots_before(window * size)
        before = stretches.rows_before(slots)
        chosen = stretches.slots(slots[:, 0], slots[:, -1])
        chosen = chosen._replace(parts=tf.gather(at.order_of_parts, chosen.parts))
        mixed = self._mixed(at.epoch, window[:, :-1], before)
        rows = at.begins + before[:, 0], at.begins + before[:, -1]
        return self._unit(chosen, slots[:, -1] - slots[:, 0], *rows, mixed)

    def _unit(
        self, chosen: Slots, parts: tf.Tensor, begins: tf.Tensor, ends: tf.Tensor, mixed: tf.Tensor
    ) -> Unit:
        """The rows of the lanes from the numbers `begins` on to before `ends`, int64 [lanes] both.

        Args:
          chosen: the parts that hold them, of which each lane has `parts`, int64 [lanes].
          mixed: int32 [n], which row each becomes, lane after lane.
        """
        lanes, counts = self.lanes, ends - begins
        numbers_of_lanes = tf.range(lanes.first, lanes.end)
        batch = tf.reduce_min(begins) // lanes.size
        # The number of a row in its lane, after that batch, less its number among the rows of all lanes here.
        to_lane = tf.cast(begins - batch * lanes.size - tf.cumsum(counts, exclusive=True), tf.int32)
        of_lane = tf.reduce_max(counts)

        def alike() -> tf.Tensor:
            each = tf.reshape(mixed, [lanes.here, of_lane]) + to_lane[:, None]
            return tf.reshape(lanes.places(each, numbers_of_lanes[:, None]), [-1])

        def apiece() -> tf.Tensor:
            lane = tf.repeat(tf.range(lanes.here), counts)
            return lanes.places(mixed + tf.gather(to_lane, lane), lanes.first + lane)

        places = self._grouped(tf.cond(tf.reduce_min(counts) == of_lane, alike, apiece), counts)
        of_groups = zip(*(self._grouped(column, parts) for column in chosen), strict=True)
        read = [self._read(Slots(*each), some) for each, some in zip(of_groups, places, strict=True)]
        places, rows = zip(*read, strict=True)
        # Whole batches alone go on: groups of any size would be cut into batches by one more copy.
        first, end = (at * lanes.here * lanes.size for at in (batch, tf.reduce_min(ends) // lanes.size))
        return Unit(base=first, end=end, places=places, rows=rows)

    def _grouped(self, values: tf.Tensor, of_lanes: tf.Tensor) -> list[tf.Tensor]:
        """Values, lane after lane, of which each has so many, int64 [lanes] → those of each group."""
        groups = tf.split(of_lanes, self._group_sizes)
        return tf.split(values, [tf.reduce_sum(group) for group in groups], num=len(groups))

    def _mixed(self, epoch: tf.Tensor, windows: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
        """Which row each row inside a window becomes: int32 [n], lane after lane.

        Args:
          windows: int64 [lanes, windows], their numbers.
          before: int64 [lanes, windows + 1], rows of the lane before each of them, and after the last.
        """
        rows = tf.reshape(before[:, 1:] - before[:, :-1], [-1])
        lane = tf.range(self.lanes.first, self.lanes.end, dtype=tf.int64)
        number = tf.reshape(windows * self.lanes.count + lane[:, None], [-1])
        return order.shuffled_windows(rows, seed=self._seed, epoch=epoch, windows=number)
