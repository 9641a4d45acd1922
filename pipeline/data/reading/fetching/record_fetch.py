"""Records by their offset in a file, read by TensorFlow's own C++: no Python runs for a record."""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.record_table import Shards
from pipeline.data.dataset.tfrecord import FRAME_BYTES, HEADER_BYTES
from pipeline.data.reading.fetching import failed_reads, offsets, reads_in_flight
from pipeline.data.tracing import apart, as_written

LARGE_BYTES = 128 << 10  # 128 KiB: from there on, one more copy of a record costs more than a system call
_RUNS_AT_ONCE = 64  # of one call, where reads are slow or have failed

_NOTHING = np.array([], object)  # string [0]
_RECORD = tf.TensorSpec([], tf.string)


class Locations(NamedTuple):
    """Where n records are, [n] each; or one, [] each."""

    paths: tf.Tensor  # string
    offsets: tf.Tensor  # int64, bytes
    sizes: tf.Tensor  # int64, bytes of the frame
    file_sizes: tf.Tensor  # int64, bytes


class Fetch:
    """Reads records of `shards`, which are found by their offsets."""

    def __init__(self, shards: Shards) -> None:
        self._paths = tf.constant(shards.paths)
        self._starts = tf.constant(shards.record_starts)
        self._file_sizes = tf.constant(shards.bytes)
        self._before = tf.constant(np.cumsum(shards.bytes) - shards.bytes)  # bytes of the shards before each
        self._offsets = offsets.of(shards)
        self._is_large = shards.mean_bytes >= LARGE_BYTES
        self.in_flight = reads_in_flight.of(shards)
        # For large records a buffer is only one more copy; but where reads are slow, each one counts.
        self._is_buffered = (
            not self._is_large or self.in_flight.is_slow or any("://" in path for path in shards.paths)
        )

    def records(self, numbers: tf.Tensor) -> tf.Tensor:
        """Numbers over all shards, int64 [n] with n known when traced → the records, string [n].

        All are read in one call: a map over single numbers would hand each record from thread to thread.
        """
        found, count = self.locations(numbers), numbers.shape[0]
        records, is_whole = self._in_turn(found, count)

        @apart
        def each() -> tf.Tensor:
            with tf.control_dependencies([_noted(found, "records")]):
                locations = tf.nest.map_structure(tf.identity, found)
            read = tf.data.Dataset.from_tensor_slices(locations).map(as_written(self.record))
            return read.batch(count, drop_remainder=True).get_single_element()

        return tf.cond(is_whole, lambda: records, each)

    def record(self, location: Locations) -> tf.Tensor:
        """The record there, string []; tried again where reading it fails."""
        (record,) = self._records_at(Locations(*(part[None] for part in location)), 1)
        length = location.sizes - FRAME_BYTES
        return failed_reads.read(
            record.take(1),
            nothing="",
            is_whole=lambda found: tf.strings.length(found) == tf.cast(length, tf.int32),
            path=location.paths,
            offset=location.offsets,
        )

    def runs(self, first: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
        """Runs of records, each so many from its first one on, int64 [runs] each → string [n].

        Where reads are slow, many runs are in flight at once.
        """
        read = self._each_run if self.in_flight.is_slow else self._all_runs
        # Lanes that have no rows left in an epoch have no runs, and a batch of no records is an error.
        return tf.cond(
            tf.size(first) > 0, lambda: read(first, counts), lambda: tf.constant(_NOTHING, tf.string)
        )

    def _all_runs(self, first: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
        """The records of one run or more, string [n], one read after the other unless a read fails."""

        @apart
        def each() -> tf.Tensor:
            with tf.control_dependencies([_noted(self.locations(first), "runs of records")]):
                return self._each_run(tf.identity(first), counts)

        total = tf.reduce_sum(counts)
        records = self._runs_in_turn(first, counts)
        found = failed_reads.first_or(records.batch(total, drop_remainder=True), _NOTHING)
        return tf.cond(tf.size(found, tf.int64) == total, lambda: found, each)

    def _runs_in_turn(self, first: tf.Tensor, counts: tf.Tensor) -> tf.data.Dataset:
        """The records of runs, string [], run after run."""
        if not _has_offsets():
            locations = self.locations(tf.ragged.range(first, first + counts).flat_values)
            return tf.data.Dataset.from_tensor_slices(tuple(locations)).flat_map(as_written(_bytes_at))
        return tf.data.Dataset.from_tensor_slices(self._pieces(first, counts)).flat_map(_piece)

    def _pieces(self, first: tf.Tensor, counts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Runs, cut where a shard ends: paths string [n, 1], and offsets [n, 1], bytes [n], counts [n].

        What is computed here of all runs at once would cost as much as reading, if it were done run by run.
        """
        after = first + counts
        shards = tf.ragged.range(self._shard_of(first), self._shard_of(after - 1) + 1)
        run, shard = shards.value_rowids(), shards.flat_values
        begin = tf.maximum(tf.gather(first, run), tf.gather(self._starts, shard))
        end = tf.minimum(tf.gather(after, run), tf.gather(self._starts, shard + 1))
        offsets = self._spans(begin)[:, 0]
        size = self._spans(end - 1)[:, 1] - offsets if self._is_buffered else tf.zeros_like(offsets)
        return tf.gather(self._paths, shard)[:, None], offsets[:, None], size, end - begin

    def _in_turn(self, found: Locations, count: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Records, one read after the other, string [n], and whether none of the reads failed."""
        records = self._records_at(found, count)
        if self._is_large:
            chain = functools.reduce(tf.data.Dataset.concatenate, [record.take(1) for record in records])
            read = failed_reads.first_or(chain.batch(count, drop_remainder=True), _NOTHING)
            return read, tf.size(read) == count
        # One more copy, and still cheaper than a chain.
        read = tf.stack(failed_reads.first_or(tf.data.Dataset.zip(*records), ("",) * count))
        lengths = tf.strings.length(read) + FRAME_BYTES
        return read, tf.reduce_all(tf.cast(lengths, tf.int64) == found.sizes)

    def _each_run(self, first: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
        """The records of runs, string [n], each run read by itself, and tried again where that fails."""
        runs = tf.data.Dataset.from_tensor_slices((self.locations(first), first, counts))
        each = runs.map(as_written(self._whole_run), num_parallel_calls=_RUNS_AT_ONCE, deterministic=True)
        return each.rebatch(tf.reduce_sum(counts)).get_single_element()

    def _whole_run(self, location: Locations, first: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """`count` records from number `first`, which is there, on: string [count]."""
        return failed_reads.read(
            self._run(first, count).batch(count, drop_remainder=True),
            nothing=_NOTHING,
            is_whole=lambda found: tf.size(found, tf.int64) == count,
            path=location.paths,
            offset=location.offsets,
        )

    def _run(self, first: tf.Tensor, count: tf.Tensor) -> tf.data.Dataset:
        """`count` records (string []) from number `first` on; they may go on in the next shards.

        Args:
          first: int64 [], a number over all shards.
          count: int64 [].
        """
        if not _has_offsets():
            locations = self.locations(tf.range(first, first + count))
            return tf.data.Dataset.from_tensor_slices(tuple(locations)).flat_map(as_written(_bytes_at))
        ends = tf.stack([first, first + count - 1])
        (shard, last), (start, end) = tf.unstack(self._shard_of(ends)), tf.unstack(self._spans(ends))
        later = tf.zeros([last - shard], tf.int64)  # shards that are read from their first record on
        buffer = (self._before[last] + end[1]) - (self._before[shard] + start[0]) if self._is_buffered else 0
        return _read(self._paths[shard : last + 1], tf.concat([start[:1], later], axis=0), buffer).take(count)

    def locations(self, numbers: tf.Tensor) -> Locations:
        """Where the records of these numbers over all shards, int64 [n], are."""
        shards, spans = self._shard_of(numbers), self._spans(numbers)
        return Locations(
            paths=tf.gather(self._paths, shards),
            offsets=spans[:, 0],
            sizes=spans[:, 1] - spans[:, 0],
            file_sizes=tf.gather(self._file_sizes, shards),
        )

    def _spans(self, numbers: tf.Tensor) -> tf.Tensor:
        """Where the frames of records begin and end, int64 [n, 2] bytes of their shards."""
        shards = self._shard_of(numbers)
        starts = self._offsets(shards, numbers - tf.gather(self._starts, shards))  # each one's, and the next
        is_last = numbers + 1 == tf.gather(self._starts, shards + 1)
        ends = tf.where(is_last, tf.gather(self._file_sizes, shards), starts[:, 1])
        return tf.stack([starts[:, 0], ends], axis=1)

    def _records_at(self, found: Locations, count: int) -> list[tf.data.Dataset]:
        """One dataset per location; its first element is the record."""
        if not _has_offsets():
            return [_bytes_at(*one) for one in zip(*map(tf.unstack, found), strict=True)]
        buffers = tf.unstack(found.sizes, num=count) if self._is_buffered else [0] * count
        # Split, not unstacked: the operation takes lists, here of one path and one offset.
        paths, starts = tf.split(found.paths, count), tf.split(found.offsets, count)
        return [_read(*one) for one in zip(paths, starts, buffers, strict=True)]

    def _shard_of(self, numbers: tf.Tensor) -> tf.Tensor:
        return tf.searchsorted(self._starts, numbers, side="right", out_type=tf.int64) - 1


def _noted(found: Locations, what: str) -> tf.Operation:
    """Tells that reading one of several failed; which one, TensorFlow does not say."""
    count = tf.strings.as_string(tf.size(found.paths))
    words = tf.strings.join(["one of ", count, f" {what}, the first in ", found.paths[0]])
    return failed_reads.noted(words, found.offsets[0])


def _read(paths: tf.Tensor, offsets: tf.Tensor, buffer_bytes: tf.Tensor | int) -> tf.data.Dataset:
    """All records of `paths`, string [n], each file from its offset on, int64 [n]; checks their CRCs."""
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=paths, compression_type="", buffer_size=buffer_bytes, byte_offsets=offsets
    )
    return tf.data.experimental.from_variant(variant, _RECORD)


@as_written
def _piece(path: tf.Tensor, offset: tf.Tensor, buffer_bytes: tf.Tensor, count: tf.Tensor) -> tf.data.Dataset:
    return _read(path, offset, buffer_bytes).take(count)


def _bytes_at(path: tf.Tensor, offset: tf.Tensor, size: tf.Tensor, file_size: tf.Tensor) -> tf.data.Dataset:
    """The same record where TensorFlow has no `TFRecordDatasetV2`; does not check its CRC."""
    start, length = offset + HEADER_BYTES, size - FRAME_BYTES
    return tf.data.FixedLengthRecordDataset(
        path, length, header_bytes=start, footer_bytes=file_size - start - length
    )


def _has_offsets() -> bool:
    return hasattr(tf.raw_ops, "TFRecordDatasetV2")
