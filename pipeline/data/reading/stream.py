"""The endless stream of rows of a plan, read in the way that the plan names.

Elements are (positions int64 [n], rows [n, …]). A position is the number of an example since the start of
training; a row is a serialized record (string) or, from blocks, its words (uint16 [n, words]).
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from pipeline.base.tracing import no_autograph
from pipeline.data.dataset import shards as shards_lib
from pipeline.data.reading import order, records, windows
from pipeline.data.reading.fetch import MOST_READS, READS_AT_ONCE, Fetch, dataset_options
from pipeline.data.reading.permutation import OF_A_MIXTURE
from pipeline.data.reading.plan import CYCLE, Mixture, ReadPlan
from pipeline.data.reading.positions import SINGLE_RECORD_BYTES, WayName
from pipeline.data.reading.records import CALLS_AT_ONCE, fetched
from pipeline.data.reading.sharding import Share, rebatched
from pipeline.data.reading.windows import UNITS_AT_ONCE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """A way of reading. The rows depend on the plan alone, not on threads, hosts or restarts.

    Both functions take a plan and how many global batches are read at once.
    """

    layouts: tuple[str, ...]  # the layouts that it can read
    read: Callable[[ReadPlan, int], tf.data.Dataset]  # endless (positions, rows), or what `gather` takes
    # A function from an element to (positions, rows), for ways that a later map can include.
    gather: Callable[[ReadPlan, int], Callable[..., tuple[tf.Tensor, tf.Tensor]]] | None = None
    # Like `read`, but gives each row's number over all shards of the selection instead of the row.
    numbers: Callable[[ReadPlan, int], tf.data.Dataset]
    at_once: float = 1.0  # the most calls of `read` that run at once, on any number of cores
    most_reads: int = MOST_READS  # reads in flight at once, on slow storage
    # Whether a service reads a run of every global batch, instead of whole batches in turn.
    cuts_batches: bool = False
    is_local: bool = False  # whether it reads into the memory of the host that trains: no other host can help


# To add a way, add it here and to positions.WayName, and let positions.way_of choose it; the tests of the
# stream run over all of them.
WAYS: Mapping[WayName, Way] = {
    # Every record is fetched by its offset, in a permutation of the whole epoch: for large records.
    "single": Way(
        layouts=("rows",), read=records.read_single, numbers=records.single_numbers, at_once=CALLS_AT_ONCE
    ),
    # Runs of records are permuted over the epoch, and rows inside a window of such runs: for small records.
    "windows": Way(
        layouts=("rows", "blocks"),
        read=windows.read,
        numbers=windows.numbers,
        at_once=UNITS_AT_ONCE,
        most_reads=READS_AT_ONCE,
        cuts_batches=True,
    ),
    # Local blocks are mapped into memory, and rows gathered in a permutation of the whole epoch.
    "mapped": Way(
        layouts=("blocks",),
        read=records.read_mapped,
        gather=records.gather,
        numbers=records.single_numbers,  # rows are permuted here as single records are
        is_local=True,
    ),
}


def way_of(plan: ReadPlan) -> Way:
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
    """Endless (positions int64 [n], rows [n, …]) of the plan's share; n rows are read together.

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
    """The numbers of the rows that `read` gives: endless (positions int64 [n], numbers int64 [n, 2]).

    No record is read. The two numbers are the mixture's part, 0 where there is no mixture, and the row,
    counted over all shards of the part's selection.
    """
    numbers = way_of(plan).numbers(plan, 1)
    of_part = numbers if isinstance(plan.data, Mixture) else numbers.map(_of_part(0))
    return of_part.with_options(dataset_options())


def _mixed(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    if is_large_mixture(plan.data):
        return fetch_mixture(plan, _mixed_numbers(plan, batches))
    return read_mixture(plan, batches, read_part=lambda _, part: read(part))


def _mixed_numbers(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    def numbers(part: int, plan: ReadPlan) -> tf.data.Dataset:
        return way_of(plan).numbers(plan, 1).map(_of_part(part))

    return read_mixture(plan, batches, read_part=numbers)


def _of_part(part: int) -> Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """(positions, rows int64 [n]) → (positions, int64 [n, 2]): puts the number of the part before each
    row.
    """

    @no_autograph
    def both(positions: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return positions, tf.stack([part * tf.ones_like(rows), rows], axis=1)

    return both


# --- The stream of a mixture: exact over every cycle, and the same from any position.

_CYCLES_AT_ONCE = 2  # cycles that are read at once; their order stays
_SEED_STRIDE = 1 << 32  # distance of the parts' seeds: so large that no config's seed equals another part's


def read_mixture(
    plan: ReadPlan, batches: int, *, read_part: Callable[[int, ReadPlan], tf.data.Dataset]
) -> tf.data.Dataset:
    """Endless (positions int64 [n], rows [n, …]) of a mixture, for the plan's share.

    In each cycle every part gives its number of rows, which are the next rows of its own shuffled epochs;
    then the rows of the cycle are permuted. So the row at a position is a pure function of the seed, and the
    stream starts at any position without reading what comes before. A part with few rows and a large weight
    begins its next epoch earlier.

    Args:
      batches: global batches that are read at once, where other hosts read their share of them.
      read_part: a function from the number and plan of a part to its stream.
    """
    return plan.share.of_groups(_cycles(plan, plan.data, read_part), batches=batches)


def is_large_mixture(mixture: Mixture) -> bool:
    """Returns whether the records of a cycle are too large to hold: two cycles of photographs take gigabytes.

    Only the numbers of such records are mixed; each record is fetched when its position comes.
    """
    return _mean_bytes(mixture) >= SINGLE_RECORD_BYTES


def fetch_mixture(plan: ReadPlan, numbers: tf.data.Dataset) -> tf.data.Dataset:
    """(positions, numbers int64 [n, 2]) → (positions int64 [n], records string [n]); a number is a part, and
    a row of it.
    """
    shards = [part.selection.shards for part in plan.data.parts]
    starts = tf.constant(np.cumsum([0, *(each.records for each in shards[:-1])]))

    @no_autograph
    def numbers_of(positions: tf.Tensor, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # Positions are copied, because groups may be sliced from them: TensorFlow logs every slice of a
        # slice.
        return tf.raw_ops.DeepCopy(x=positions), tf.gather(starts, numbers[:, 0]) + numbers[:, 1]

    fetch_ = Fetch(shards_lib.join_tables(shards))
    return fetched(numbers, numbers_of, fetch_, mean_bytes=_mean_bytes(plan.data))


def _mean_bytes(mixture: Mixture) -> float:
    """The mean size of the records of a cycle; 0 for blocks, whose rows are small."""
    shards = [part.selection.shards for part in mixture.parts]
    if shards[0].rows_in_record > 1:
        return 0.0
    return sum(n * each.mean_bytes for n, each in zip(mixture.counts, shards, strict=True)) / CYCLE


def _cycles(
    plan: ReadPlan, mixture: Mixture, read_part: Callable[[int, ReadPlan], tf.data.Dataset]
) -> tf.data.Dataset:
    """A dataset with one cycle as each element; the first one starts at the plan's position."""
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

    @no_autograph
    def mix(cycle: tf.Tensor, parts: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, tf.Tensor]:
        size = tf.constant(CYCLE, tf.int64)
        mixed = order.shuffled_window(size, seed=plan.seed, epoch=cycle, window=OF_A_MIXTURE)
        skipped = tf.where(cycle == first_cycle, offset, tf.zeros_like(offset))
        positions = cycle * CYCLE + tf.range(size)
        return positions[skipped:], tf.gather(tf.concat(parts, axis=0), mixed[skipped:])

    parts = [rows_of(number, count) for number, count in enumerate(mixture.counts)]
    cycles = tf.data.Dataset.range(first_cycle, tf.int64.max)
    return tf.data.Dataset.zip(cycles, tf.data.Dataset.zip(*parts)).map(
        mix, num_parallel_calls=_CYCLES_AT_ONCE, deterministic=True
    )


@no_autograph
def _rows_only(_: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    return rows
