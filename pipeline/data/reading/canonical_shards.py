"""Canonical shards of the stream: each gives one run of every global batch, and reads its own part of the
data.

A global batch of B examples is cut into `count` equal runs; shard l gives the l-th run of every batch. In
each epoch the parts of the data are permuted and laid end to end. Shard l reads the l-th segment of their
rows, which has as many rows as the shard has positions in the epoch. A host that feeds some replicas reads
the shards that these replicas take. So the order depends on the seed, the data and the global batch, never on
the hosts. MosaicML Streaming's canonical nodes (`num_canonical_nodes`) serve the same end. "Shard" alone
means a canonical shard here, unless it is one of `Selection.shards`.
"""

import dataclasses
import functools
from typing import NamedTuple

import tensorflow as tf

from pipeline.base.tracing import no_autograph, tf_function
from pipeline.data.reading import order
from pipeline.data.reading.order import quotient
from pipeline.data.reading.window_parts import MOST_BYTES, MOST_CANONICAL_SHARDS, WindowParts

# --- The segment of an epoch that each shard reads, and the windows in it.


class IndexRanges(NamedTuple):
    """Ranges of rows in n parts, shard after shard: int64 [n] each."""

    parts: tf.Tensor  # numbers of the parts, in the order of the epoch
    skipped: tf.Tensor  # rows of the part that come before the segment
    rows: tf.Tensor  # rows that are read


class Segments(NamedTuple):
    """The segments of some shards in one epoch; int64 [shards] unless a shape is given.

    The permuted parts of an epoch lie end to end, which orders their rows. A segment may begin or end inside
    a part, which two shards then share. A shard reads the part in which its segment begins last. So all
    shards begin with whole parts, and move from window to window together. Windows have equally many rows,
    counted from the start of the segment; a window holds the parts that begin in it.
    """

    starts: tf.Tensor  # [parts + 1], in the order of the epoch: the rows before each part, then all rows
    begins: tf.Tensor  # the first row of each segment
    sizes: tf.Tensor  # rows of each segment
    ends: tf.Tensor
    # Reading starts with the parts that begin in the segment. The part in which the segment begins comes
    # last.
    first: tf.Tensor  # number of the first part that begins in it
    whole: tf.Tensor  # number of parts that begin in it; the last one may be cut
    turned_at: tf.Tensor  # row at which reading starts; the rows of the segment before it are read last
    is_cut: tf.Tensor  # 1 where the segment begins inside a part, else 0

    @classmethod
    def of(cls, part_ends: tf.Tensor, begins: tf.Tensor, sizes: tf.Tensor) -> "Segments":
        """Makes the segments that begin at the rows `begins` and have `sizes` rows, [shards] each.

        Args:
          part_ends: [parts], the number of rows up to the end of each part, in the order of the epoch.
        """
        starts, ends = tf.concat([[0], part_ends], axis=0), begins + sizes
        first = tf.searchsorted(starts, begins, side="left", out_type=tf.int64)
        after = tf.searchsorted(starts, ends, side="left", out_type=tf.int64)
        turned_at = tf.minimum(_start_of(first, starts), ends)
        return cls(
            starts=starts,
            begins=begins,
            sizes=sizes,
            ends=ends,
            first=first,
            whole=tf.maximum(after - first, 0),
            turned_at=turned_at,
            is_cut=tf.cast(begins < turned_at, tf.int64),
        )

    def ranges_before(self, rows: tf.Tensor) -> tf.Tensor:
        """Counts the ranges of each shard that begin before its rows [shards, n], in the order of reading."""
        until = self.turned_at[:, None] + rows
        found = tf.searchsorted(self.starts, tf.reshape(until, [-1]), side="left", out_type=tf.int64)
        whole = tf.reshape(found, tf.shape(until)) - self.first[:, None]
        last = tf.cast(until > self.ends[:, None], tf.int64) * self.is_cut[:, None]
        return tf.clip_by_value(whole, 0, self.whole[:, None]) + last

    def rows_before(self, ranges: tf.Tensor) -> tf.Tensor:
        """Counts the rows that each shard reads before its ranges [shards, n]."""
        starts = _start_of(self.first[:, None] + ranges, self.starts)
        rows = tf.minimum(starts, self.ends[:, None]) - self.turned_at[:, None]
        return tf.where(ranges > self.whole[:, None], self.sizes[:, None], rows)

    def range_of(self, rows: tf.Tensor) -> tf.Tensor:
        """The range in which each shard's row [shards] is; if there is no such row, the shard's last
        range.
        """
        return tf.maximum(self.ranges_before(rows[:, None] + 1)[:, 0] - 1, 0)

    def last_begins(self) -> tf.Tensor:
        """Counts the rows that each shard reads before its last range, [shards]."""
        last = tf.maximum(self.whole + self.is_cut - 1, 0)
        return self.rows_before(last[:, None])[:, 0]

    def ranges(self, first: tf.Tensor, end: tf.Tensor) -> IndexRanges:
        """The ranges [first, end) of each shard, both [shards]."""
        numbers = tf.ragged.range(first, end)
        shards, ranges = numbers.value_rowids(), numbers.flat_values
        is_cut = ranges == tf.gather(self.whole, shards)
        parts = tf.gather(self.first, shards) + tf.where(is_cut, -tf.ones_like(ranges), ranges)
        starts = tf.gather(self.starts, parts)
        begins = tf.where(is_cut, tf.gather(self.begins, shards), starts)
        ends = tf.minimum(tf.gather(self.starts, parts + 1), tf.gather(self.ends, shards))
        return IndexRanges(parts=parts, skipped=begins - starts, rows=ends - begins)


def _start_of(parts: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
    last = tf.size(starts, tf.int64) - 1
    return tf.gather(starts, tf.minimum(parts, last))


# --- The canonical shards of a host, among all.


@dataclasses.dataclass(frozen=True, kw_only=True)
class CanonicalShards:
    """Some of the `count` canonical shards: [first, end), numbered over all shards.

    The rows of a shard are numbered from the start of training, like positions.
    """

    global_batch: int
    count: int
    first: int
    end: int

    @property
    def size(self) -> int:
        """Examples of a global batch that a shard gives."""
        return self.global_batch // self.count

    @property
    def run(self) -> tuple[int, int]:
        """The examples of a global batch that these shards give: from the first to after the last."""
        return self.first * self.size, self.end * self.size

    @property
    def here(self) -> int:
        return self.end - self.first

    def rows_before(self, position: tf.Tensor) -> tf.Tensor:
        """Counts each shard's rows at positions before this one, int64 []: int64 [here]."""
        return self.of_all(rows_before(position, self))

    def of_all(self, values: tf.Tensor) -> tf.Tensor:
        """Picks these shards' values from the values of all shards, [count] → [here]."""
        return tf.gather(
            values, tf.range(self.first, self.end)
        )  # a slice would make TensorFlow log an error wherever it optimises the graph

    def places_before(self, position: tf.Tensor) -> tf.Tensor:
        """Counts the rows of all these shards at positions before this one, int64 [] both."""
        return tf.reduce_sum(self.rows_before(position))

    def places(self, numbers: tf.Tensor, shards: tf.Tensor) -> tf.Tensor:
        """Counts the rows of all these shards that come before a row, which is given by its shard and its
        number there.

        Args:
          numbers: from 0 on, of any integer type and shape.
          shards: the numbers of their shards, of a shape that broadcasts with `numbers`.
        """
        size = tf.constant(self.size, numbers.dtype)
        batches = quotient(numbers, size)
        in_run = tf.cast(shards - self.first, numbers.dtype) * size + (numbers - batches * size)
        return batches * tf.constant(self.here * self.size, numbers.dtype) + in_run

    def positions(self, start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
        """The positions of the places [start, end), both int64 []: int64 [n]."""
        places = tf.range(start, end)
        if self.here == self.count:
            return places
        first, after = self.run
        batches = places // (after - first)
        return places + batches * (self.global_batch - (after - first)) + first

    def of_run(self, first: int, end: int) -> "CanonicalShards":
        """The shards that give the examples [first, end) of a global batch."""
        return dataclasses.replace(self, first=first // self.size, end=-(-end // self.size))


def rows_before(position: tf.Tensor, canonical: CanonicalShards) -> tf.Tensor:
    """Counts the rows of each shard, on any host, at positions before this one: int64 [count]."""
    starts = tf.range(0, canonical.global_batch, canonical.size, dtype=tf.int64)
    batches, rest = position // canonical.global_batch, position % canonical.global_batch
    return batches * canonical.size + tf.clip_by_value(rest - starts, 0, canonical.size)


def all_canonical_shards(
    parts: WindowParts, *, global_batch: int, most: int = MOST_CANONICAL_SHARDS
) -> CanonicalShards:
    """All shards of a stream; `WindowParts.canonical_shards` gives their number."""
    count = parts.canonical_shards(global_batch, most=most)
    return CanonicalShards(global_batch=global_batch, count=count, first=0, end=count)


# --- How much of each shard is read at once, and of how many shards together.

_MOST_GROUPS = 16
# Batches in a unit whose windows do not end where batches end. Records of single rows take more memory than
# rows of blocks, and are copied one by one: more than two batches do not fit into the processor's cache.
_BATCHES_OF_BLOCKS = 8
_BATCHES_OF_RECORDS = 2


class UnitSize(NamedTuple):
    window_rows: int
    windows: int


def unit_size(parts: WindowParts, canonical: CanonicalShards, *, is_of_blocks: bool) -> UnitSize:
    """The size of a unit: equally many rows for any number of shards here, and at least a batch's rows of
    each.
    """
    in_window = parts.in_window(canonical.count)
    rows = parts.window_rows(canonical.count)
    windows = max(-(-canonical.size // rows), parts.in_windows // (in_window * canonical.here), 1)
    if windows * rows % canonical.size:
        # Rows of a batch that is not whole are kept for the next unit, which costs one more copy of them.
        batches = _BATCHES_OF_BLOCKS if is_of_blocks else _BATCHES_OF_RECORDS
        few_kept = -(-batches * canonical.size // rows)
        most = int(MOST_BYTES / (in_window * parts.bytes * canonical.here))
        windows = max(windows, min(few_kept, most))
    return UnitSize(window_rows=rows, windows=windows)


def group_size(shards: int, *, parts: int, in_windows: int, is_of_blocks: bool) -> int:
    """Counts the shards of a unit that are read together: all for strings, about two windows for blocks.

    More than two windows do not fit into the processor's cache; fewer would need more groups, and each group
    costs calls of its own. All groups have the same size where possible, because only groups of the usual
    size are read in the cheapest way.

    Args:
      shards: number of shards of this host.
      parts: number of parts of each shard in a unit.
      in_windows: see `WindowParts`.
    """
    most = min(shards, _MOST_GROUPS)
    fewest = min(-(-parts * shards // (2 * in_windows)), most) if is_of_blocks else 1
    even = [count for count in range(fewest, most + 1) if shards % count == 0]
    return -(-shards // (even[0] if even else fewest))


# --- Where units start, one after the other, from epoch to epoch.


class UnitStart(NamedTuple):
    """The start of a unit in its epoch; tensors are int64 unless another dtype is given."""

    epoch: tf.Tensor  # []
    begins: tf.Tensor  # [shards], rows of each shard before the epoch
    order_of_parts: tf.Tensor  # int32 [parts]
    segments: Segments
    window: tf.Tensor  # [shards], the number of each shard's first window, counted in its segment
    left: tf.Tensor  # [], number of units of the epoch from this one on


def unit_starts(
    counts: tf.Tensor, canonical: CanonicalShards, *, rows: int, seed: int, begin: tf.Tensor, unit: UnitSize
) -> tf.data.Dataset:
    """Endless dataset of `UnitStart`s; the first unit holds the position `begin`, int64 [].

    The parts of an epoch are permuted once, when its first unit is reached. All units come from one dataset:
    a dataset for each epoch would take 20 ms to set up, however few rows an epoch has.

    Args:
      counts: int64 [parts], rows of each part of the data.
      rows: number of rows of all parts.
    """

    def entered(epoch: tf.Tensor) -> UnitStart:
        of_all = rows_before(epoch * rows, canonical)
        sizes = rows_before((epoch + 1) * rows, canonical) - of_all
        order_of_parts = order.shuffled_parts(counts.shape[0], seed=seed, epoch=epoch)
        ends = tf.cumsum(tf.gather(counts, order_of_parts))
        begins, sizes, firsts = map(canonical.of_all, (of_all, sizes, tf.cumsum(sizes, exclusive=True)))
        segments = Segments.of(ends, firsts, sizes)
        # Reading begins somewhere in the first epoch, and at the start of each later one.
        done = tf.maximum(canonical.rows_before(begin) - begins, 0)
        first = segments.rows_before(segments.range_of(done)[:, None])[:, 0] // unit.window_rows
        windows = tf.reduce_max(segments.last_begins() // unit.window_rows - first) + 1
        left = -(-windows // unit.windows)
        return UnitStart(epoch, begins, order_of_parts, segments, window=first, left=left)

    number, some = tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int64)
    parts, of_shards = tf.TensorSpec([None], tf.int32), Segments(*[some] * len(Segments._fields))
    any_start = UnitStart(number, some, parts, of_shards, window=some, left=number)
    enter = tf_function(entered, number)

    # With a signature it is traced once; see `windows.interleave`.
    @functools.partial(tf.function, autograph=False, input_signature=[any_start, number])
    def next_start(last: UnitStart, number: tf.Tensor) -> tuple[UnitStart, UnitStart]:
        del number
        is_same = last.left > 1
        following = last._replace(window=last.window + unit.windows, left=last.left - 1)
        place = tf.cond(is_same, lambda: following, lambda: enter(last.epoch + 1))
        return place, place

    nothing = tf.nest.map_structure(
        lambda spec: tf.zeros([0] * spec.shape.rank, spec.dtype), any_start
    )  # in the epoch before
    before = nothing._replace(epoch=begin // rows - 1)
    return tf.data.Dataset.range(tf.int64.max).scan(before, no_autograph(next_start))
