"""The endless stream of rows that a plan asks for, by whichever way of reading it names.

Elements are (positions int64 [n], rows [n, …]). A position is the number of an example since the start of
training; a row is a serialized record (string) or, from blocks, its words (uint16 [n, words]).
"""

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

from pipeline.data.reading import mapped, mixed, single, windows
from pipeline.data.reading.mixture import Mixture
from pipeline.data.reading.plan import ReadPlan, WayName


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """A way of reading. What it gives depends on the plan alone, not on threads, hosts or restarts.

    Both functions take a plan and how many global batches are read at once.
    """

    layouts: tuple[str, ...]  # that it reads
    read: Callable[[ReadPlan, int], tf.data.Dataset]  # endless (positions, rows), or what `gather` takes
    # A function of an element to (positions, rows), for those ways that can take part in a later map.
    gather: Callable[[ReadPlan, int], Callable[..., tuple[tf.Tensor, tf.Tensor]]] | None = None
    is_local: bool = False  # reads into the memory of the host that trains: no other host can help


# To add a way, add it here and to plan.WayName, and let plan.plan_reading choose it; the tests of the stream
# run over all of them.
WAYS: Mapping[WayName, Way] = {
    # Every record is fetched by its offset, in a permutation of the whole epoch: for large records.
    "single": Way(layouts=("rows",), read=single.read),
    # Runs of records are permuted over the epoch, and rows inside a window of such runs: for small records.
    "windows": Way(layouts=("rows", "blocks"), read=windows.read),
    # Local blocks are mapped into memory, and rows gathered in a permutation of the whole epoch.
    "mapped": Way(layouts=("blocks",), read=mapped.read, gather=mapped.gather, is_local=True),
}


def way_of(plan: ReadPlan) -> Way:
    """How the plan's data is read."""
    if isinstance(plan.data, Mixture):
        ways = [WAYS[name] for name in plan.ways]
        return Way(layouts=ways[0].layouts, read=_mixed, is_local=any(way.is_local for way in ways))
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
    return elements.map(way.gather(plan, batches)) if way.gather else elements


def _mixed(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    return mixed.read(plan, batches, read_part=read)
