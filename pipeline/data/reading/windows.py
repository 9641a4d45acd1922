"""Rows in windows: parts of the data are permuted over the epoch, and rows inside a window of some parts.

For small records, and for blocks that cannot be mapped into memory. Every lane has windows of its own
(`lanes/lanes.py`), and a host reads those of its lanes alone.
"""

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.reading.dataset_options import dataset_options
from pipeline.data.reading.host_share import cut_runs, rebatched
from pipeline.data.reading.lanes import window_parts
from pipeline.data.reading.lanes.lane_windows import UNITS_AT_ONCE, LaneWindows
from pipeline.data.reading.lanes.lanes import all_lanes
from pipeline.data.reading.lanes.part_rows import PartRows
from pipeline.data.reading.lanes.stretches import Slots
from pipeline.data.reading.lanes.weaving import NOWHERE
from pipeline.data.reading.plan import ReadPlan
from pipeline.data.tracing import as_written


def read(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """Endless (positions int64 [n], rows [n, …]) of the plan's share."""
    return _of_share(plan, batches, only_numbers=False)


def numbers(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """The same as `read`, with the number of each row over all shards, int64 [n], in place of the row."""
    return _of_share(plan, batches, only_numbers=True)


def window_rows(selection: Selection, *, seed: int, position: int | tf.Tensor) -> tf.data.Dataset:
    """Endless (positions int64 [n], rows [n, …]), a window at a time; the first one starts at `position`.

    There is one lane: it is the order of a global batch of one example.
    """
    parts = window_parts.cut(selection)
    return LaneWindows(selection, parts, all_lanes(parts, global_batch=1), seed=seed).rows_from(position)


def stored_rows(selection: Selection) -> tf.data.Dataset:
    """Every row once, in stored order: (positions int64 [n], rows [n, …]), a window at a time."""
    parts = window_parts.cut(selection)
    together, count = parts.in_windows, len(parts.rows)
    read_rows = PartRows(selection, parts, usual=min(together, count))
    rows_of_parts, ends = tf.constant(parts.rows), tf.constant(np.cumsum(parts.rows))

    @as_written
    def window(first: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        chosen = tf.range(first, tf.minimum(first + together, count))
        counts = tf.gather(rows_of_parts, chosen)
        end, wanted = ends[chosen[-1]], tf.reduce_sum(counts)
        slots = Slots(parts=chosen, skipped=tf.zeros_like(chosen), rows=counts)
        places, rows = read_rows(slots, tf.range(tf.cast(wanted, tf.int32)))
        is_whole = tf.shape(rows, tf.int64)[0] == wanted
        selected = tf.cond(is_whole, lambda: rows, lambda: tf.boolean_mask(rows, places != NOWHERE))
        return tf.range(end - wanted, end), selected

    windows = tf.data.Dataset.range(0, count, together)
    return windows.map(window, num_parallel_calls=UNITS_AT_ONCE, deterministic=True).with_options(
        dataset_options()
    )


def _of_plan(plan: ReadPlan, *, only_numbers: bool) -> LaneWindows:
    share, parts = plan.share, window_parts.cut(plan.selection)
    lanes = all_lanes(parts, global_batch=share.global_batch, most=plan.most_lanes)
    if not share.is_all and _begins_a_batch(plan):
        lanes = lanes.of_run(*share.run)
    return LaneWindows(plan.selection, parts, lanes, seed=plan.seed, only_numbers=only_numbers)


def _of_share(plan: ReadPlan, batches: int, *, only_numbers: bool) -> tf.data.Dataset:
    windows, share = _of_plan(plan, only_numbers=only_numbers), plan.share
    lanes, (first, end) = windows.lanes, share.run
    rows = windows.rows_from(plan.position)
    is_every_turn = share.cuts_batches or share.service_count == 1
    if is_every_turn and lanes.run == (first, end):
        return rows
    read_first, read_end = lanes.run
    size = read_end - read_first
    cut = first - read_first, end - read_first

    @as_written
    def here(positions: tf.Tensor, some: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return cut_runs(positions, size, *cut), cut_runs(some, size, *cut)

    return share.turns_here(rebatched(rows, batches * size)).map(here)


def _begins_a_batch(plan: ReadPlan) -> bool:
    """Whether hosts' runs are those of lanes: not if the global batch was changed in the middle of one."""
    return isinstance(plan.position, int) and plan.position % plan.share.global_batch == 0
