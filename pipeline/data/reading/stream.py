"""The endless stream of rows that a plan asks for, by whichever way of reading it names.

Elements are (positions int64 [n], rows [n, …]). A position is the number of an example since the start of
training; a row is a serialized record (string) or, from blocks, its words (uint16 [n, words]).
"""

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

from pipeline.data.reading import mapped, mixed, single, windows
from pipeline.data.reading.dataset_options import dataset_options
from pipeline.data.reading.fetching.fetched import CALLS_AT_ONCE
from pipeline.data.reading.fetching.reads_in_flight import MOST_READS
from pipeline.data.reading.fetching.record_fetch import PIECES_AT_ONCE
from pipeline.data.reading.lanes.lane_windows import UNITS_AT_ONCE
from pipeline.data.reading.mixture import CYCLE, Mixture
from pipeline.data.reading.plan import ReadPlan, WayName
from pipeline.data.tracing import as_written


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """A way of reading. What it gives depends on the plan alone, not on threads, hosts or restarts.

    Both functions take a plan and how many global batches are read at once.
    """

    layouts: tuple[str, ...]  # that it reads
    read: Callable[[ReadPlan, int], tf.data.Dataset]  # endless (positions, rows), or what `gather` takes
    # A function of an element to (positions, rows), for those ways that can take part in a later map.
    gather: Callable[[ReadPlan, int], Callable[..., tuple[tf.Tensor, tf.Tensor]]] | None = None
    # The same with the number of each row over all shards of the selection in place of the row.
    numbers: Callable[[ReadPlan, int], tf.data.Dataset]
    at_once: float = 1.0  # calls of `read` that run at once at most, on any number of cores
    most_reads: int = MOST_READS  # in flight, where they are slow
    cuts_batches: bool = False  # a service reads its run of every global batch, and not whole ones in turn
    is_local: bool = False  # reads into the memory of the host that trains: no other host can help


# To add a way, add it here and to plan.WayName, and let plan.plan_reading choose it; the tests of the stream
# run over all of them.
WAYS: Mapping[WayName, Way] = {
    # Every record is fetched by its offset, in a permutation of the whole epoch: for large records.
    "single": Way(layouts=("rows",), read=single.read, numbers=single.numbers, at_once=CALLS_AT_ONCE),
    # Runs of records are permuted over the epoch, and rows inside a window of such runs: for small records.
    "windows": Way(
        layouts=("rows", "blocks"),
        read=windows.read,
        numbers=windows.numbers,
        at_once=UNITS_AT_ONCE,
        most_reads=PIECES_AT_ONCE,
        cuts_batches=True,
    ),
    # Local blocks are mapped into memory, and rows gathered in a permutation of the whole epoch.
    "mapped": Way(
        layouts=("blocks",),
        read=mapped.read,
        gather=mapped.gather,
        numbers=single.numbers,  # the same permutation
        is_local=True,
    ),
}


def way_of(plan: ReadPlan) -> Way:
    """How the plan's data is read."""
    if isinstance(plan.data, Mixture):
        ways = [WAYS[name] for name in plan.ways]
        is_local = any(way.is_local for way in ways)
        # Each part reads its share of the rows in calls of its own.
        calls = [CALLS_AT_ONCE if way.gather else way.at_once for way in ways]
        at_once = min(CYCLE / count * most for most, count in zip(calls, plan.data.counts, strict=True))
        return Way(
            layouts=ways[0].layouts,
            read=_mixed,
            numbers=_mixed_numbers,
            at_once=at_once,
            most_reads=min(way.most_reads for way in ways),
            is_local=is_local,
        )
    return WAYS[plan.ways[0]]


def read(plan: ReadPlan, *, batches: int = 1) -> tf.data.Dataset:
    """Endless (positions int64 [n], rows [n, …]) of the plan's share, as many rows as are read together.

    Args:
      batches: global batches that are read at once, where other hosts read their share of them.

    Raises:
      InputError: a file that is mapped into memory is not what was published.
    """
    way = way_of(plan)
    elements = way.read(plan, batches)
    if way.gather:
        gather = way.gather(plan, batches)
        elements = elements.map(gather, num_parallel_calls=CALLS_AT_ONCE, deterministic=True)
    return elements.with_options(dataset_options())


def read_numbers(plan: ReadPlan) -> tf.data.Dataset:
    """Which rows `read` gives: endless (positions int64 [n], numbers int64 [n, 2]). No record is read.

    The numbers are that of the mixture's part, 0 where there is no mixture, and that of the row over all
    shards of the part's selection.
    """
    numbers = way_of(plan).numbers(plan, 1)
    of_part = numbers if isinstance(plan.data, Mixture) else numbers.map(_of_part(0))
    return of_part.with_options(dataset_options())


def _mixed(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    if mixed.is_large(plan.data):
        return mixed.fetch(plan, _mixed_numbers(plan, batches))
    return mixed.read(plan, batches, read_part=lambda _, part: read(part))


def _mixed_numbers(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    def numbers(part: int, plan: ReadPlan) -> tf.data.Dataset:
        return way_of(plan).numbers(plan, 1).map(_of_part(part))

    return mixed.read(plan, batches, read_part=numbers)


def _of_part(part: int) -> Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """(positions, rows int64 [n]) → (positions, int64 [n, 2]), the part before each row."""

    @as_written
    def both(positions: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return positions, tf.stack([part * tf.ones_like(rows), rows], axis=1)

    return both
