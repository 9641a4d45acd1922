"""Single records in a permutation of the whole epoch, each fetched by its offset: for large records."""

import concurrent.futures
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.base.progress import Bar
from pipeline.base.tracing import no_autograph
from pipeline.data.dataset import blocks
from pipeline.data.dataset.selection import Selection
from pipeline.data.dataset.tfrecord import FRAME_BYTES, HEADER_BYTES
from pipeline.data.reading import order
from pipeline.data.reading.fetch import Fetch, RecordReads
from pipeline.data.reading.parsing import words_in_row
from pipeline.data.reading.plan import ReadPlan
from pipeline.data.reading.sharding import rebatched


def read_single(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """Endless (positions int64 [n], records string [n])."""
    shards = plan.selection.shards
    positions = plan.share.positions(plan.position, batches=batches)
    return fetched(positions, _numbers_of(plan), Fetch(shards), mean_bytes=shards.mean_bytes)


def single_numbers(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """Like `read_single`, but gives each row's number over all shards, int64 [n], in place of the row."""
    positions = plan.share.positions(plan.position, batches=batches)
    together = rebatched(positions, rows_together(plan.selection.shards.mean_bytes))
    return together.map(_numbers_of(plan), num_parallel_calls=CALLS_AT_ONCE, deterministic=True)


def _numbers_of(plan: ReadPlan) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    @no_autograph
    def numbers_of(positions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # Positions are copied, because groups may be sliced from them: TensorFlow logs every slice of a
        # slice.
        return tf.raw_ops.DeepCopy(x=positions), order.selected_rows(
            positions, plan.selection, seed=plan.seed
        )

    return numbers_of


# --- Records one by one, each by its offset: as many reads at once as the storage needs.

# Records that one call fetches. More of them save little time, and take longer to trace: a record of 221
# bytes takes 23 µs of CPU with 32, and 19 µs with 64.
_TOGETHER_ROWS = 64
_TOGETHER_BYTES = 4 << 20  # 4 MiB
CALLS_AT_ONCE = 2  # calls that run at once; their order stays
# Records that one call reads in turn, where reads are slow; each waits for the ones before it. Where a read
# takes 10 ms, a record of 30 KB takes 342 µs of CPU with 1, 203 µs with 4, 189 µs with 8.
_MOST_IN_TURN = 4


def fetched(
    elements: tf.data.Dataset,
    numbers: Callable[..., tuple[tf.Tensor, tf.Tensor]],
    fetch: Fetch,
    *,
    mean_bytes: float,
) -> tf.data.Dataset:
    """Fetches the records of elements [m, …]: (positions int64 [n], records string [n]), n at most
    `_TOGETHER_ROWS`.

    Args:
      numbers: an element's positions, and the numbers of their records, both int64 [n].
      mean_bytes: mean size of a record.
    """
    if fetch.in_flight.is_slow:
        return _side_by_side(elements, numbers, fetch, mean_bytes=mean_bytes)
    together = rebatched(elements, rows_together(mean_bytes))

    @no_autograph
    def records(*element: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        positions, those = numbers(*element)
        return positions, fetch.records(those)

    return together.map(records, num_parallel_calls=CALLS_AT_ONCE, deterministic=True)


def rows_together(mean_bytes: float) -> int:
    """Records of this mean size that one call fetches."""
    return max(1, min(_TOGETHER_ROWS, int(_TOGETHER_BYTES / mean_bytes)))


def _side_by_side(
    elements: tf.data.Dataset,
    numbers: Callable[..., tuple[tf.Tensor, tf.Tensor]],
    fetch: Fetch,
    *,
    mean_bytes: float,
) -> tf.data.Dataset:
    """Does what `fetched` does where reads are slow: many calls at once, each for a few records in turn."""
    together = rows_together(mean_bytes)
    few = min(_MOST_IN_TURN, together, fetch.in_flight.records_each(mean_bytes))

    @no_autograph
    def reads(*element: tf.Tensor) -> tuple[tf.Tensor, RecordReads]:
        positions, those = numbers(*element)
        found = positions, fetch.reads_of(those)
        return tf.nest.map_structure(lambda each: tf.reshape(each, [-1, few]), found)

    @no_autograph
    def records(positions: tf.Tensor, found: RecordReads) -> tuple[tf.Tensor, tf.Tensor]:
        return positions, fetch.few(found)

    calls = fetch.in_flight.records(mean_bytes)
    grouped = rebatched(elements, together // few * few).map(reads).unbatch()
    return rebatched(grouped.map(records, num_parallel_calls=calls, deterministic=True), together)


# --- Rows of local blocks, mapped into memory and gathered by number: nothing is read or parsed.

# Several shards with at most so many bytes together are copied. Otherwise rows are gathered shard by shard,
# and put in order afterwards: with 30 shards that took 1.4 times the CPU time of one.
COPIED_BYTES = 256 << 20  # 256 MiB


def read_mapped(plan: ReadPlan, batches: int) -> tf.data.Dataset:
    """Endless dataset of first positions, (int64 [],), one for each group of `batches` global batches."""
    return plan.share.turn_starts(plan.position, batches=batches)


def gather(plan: ReadPlan, batches: int) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """Returns a function from a first position, int64 [], to (positions int64 [n], words uint16 [n, words]).

    n is the number of examples of `batches` global batches that this host reads.

    Raises:
      InputError: a shard is not what was published.
    """
    mapped, share = _MappedRows(plan.selection), plan.share

    @no_autograph
    def gathered(first: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        positions = share.positions_from(first, batches=batches)
        return positions, mapped.gather(order.selected_rows(positions, plan.selection, seed=plan.seed))

    return gathered


class _MappedRows:
    """The rows of all shards of a selection; raises InputError if a shard is not what was published.

    A shard of blocks is one array of rows of fixed width, in which the rows of data start at fixed offsets
    (`pipeline/data/dataset/blocks.py`). The records' CRCs are not checked, so every shard's SHA-256 is
    compared with the manifest's when it is mapped, unless all checksums were compared before. Several small
    shards, such as those of a window's spans, are copied into one array instead.
    """

    def __init__(self, selection: Selection) -> None:
        shards, self._schema = selection.shards, selection.dataset.schema
        geometry, frame = blocks.geometry(self._schema), blocks.frame_of_schema(self._schema)
        if not selection.is_checked:
            _check_digests(selection)
        self._rows_in_block = geometry.rows
        # Both are counted in rows, because they are multiples of a row's width: the step from block to block,
        # and what precedes a block's rows.
        self._stride = (frame.size + FRAME_BYTES) // geometry.width
        self._first = (HEADER_BYTES + frame.rows_at) // geometry.width
        # These are made once, even if the functions that read them are traced again and again.
        with tf.init_scope(), tf.device("CPU:0"):
            self._starts = tf.constant(shards.row_starts)
            self._maps = [
                tf.raw_ops.ImmutableConst(
                    dtype=tf.uint16,
                    shape=[int(size) // geometry.width, words_in_row(self._schema)],
                    memory_region_name=path,
                )
                for path, size in zip(shards.paths, shards.bytes, strict=True)
            ]
            is_copied = len(self._maps) > 1 and shards.bytes.sum() <= COPIED_BYTES
            self._copy = self._copied(np.diff(shards.row_starts)) if is_copied else None

    def _copied(self, rows: np.ndarray) -> tf.Tensor:
        """Copies all shards into memory, uint16 [all rows, words]; `rows` is the number of rows of each."""
        numbers = (tf.range(int(count), dtype=tf.int64) for count in rows)
        pairs = zip(self._maps, numbers, strict=True)
        return tf.concat([tf.gather(mapped, self._indices(those)) for mapped, those in pairs], axis=0)

    def gather(self, rows: tf.Tensor) -> tf.Tensor:
        """Rows int64 [n], numbered over all shards → their words, uint16 [n, words]."""
        if self._copy is not None:
            return tf.gather(self._copy, rows)
        if len(self._maps) == 1:
            return tf.gather(self._maps[0], self._indices(rows))
        shards = tf.searchsorted(self._starts, rows, side="right") - 1  # (rows), int32
        indices = self._indices(rows - tf.gather(self._starts, shards))
        parts = tf.dynamic_partition(indices, shards, len(self._maps))
        back = tf.dynamic_partition(tf.range(tf.size(rows)), shards, len(self._maps))
        found = [tf.gather(mapped, part) for mapped, part in zip(self._maps, parts, strict=True)]
        return tf.ensure_shape(tf.dynamic_stitch(back, found), [*rows.shape, self._maps[0].shape[1]])

    def _indices(self, rows: tf.Tensor) -> tf.Tensor:
        """Numbers of rows in their shard, int64 [n] → their indices in the shard's array, int64 [n]."""
        block = tf.truncatediv(rows, self._rows_in_block)
        return rows + block * (self._stride - self._rows_in_block) + self._first


def _check_digests(selection: Selection) -> None:
    """Raises InputError naming the shard whose SHA-256 is not the manifest's."""
    dataset, names = selection.dataset, set(selection.shards.names)
    shards = [s for each in dataset.manifest.splits.values() for s in each if s.path in names]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        digests = pool.map(lambda shard: files.sha256(dataset.directory / shard.path), shards)
        checked = Bar(digests, total=len(shards), desc="checking", unit="shard")
        for shard, digest in zip(shards, checked, strict=True):
            if digest != shard.sha256:
                raise InputError(
                    f"dataset file {dataset.directory / shard.path}",
                    received=f"SHA-256 {digest[:12]}…",
                    expected=f"{shard.sha256[:12]}…, as published",
                    action="Restore it from a copy, or convert the raw data again; to lose only what is "
                    "damaged, train with --config.shuffle=windows and --max_corrupt_records.",
                )
