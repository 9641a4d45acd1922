"""Fetches records by their offset in a file, read by TensorFlow's own C++: no Python runs for a record."""

import contextlib
import dataclasses
import functools
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pipeline.base.tracing import for_each, no_autograph, tf_function
from pipeline.data.dataset import shards as shards_lib
from pipeline.data.dataset.shards import Shards
from pipeline.data.dataset.tfrecord import FRAME_BYTES, HEADER_BYTES
from pipeline.data.reading import retries
from pipeline.data.reading.sharding import host_cores

LARGE_BYTES = 128 << 10  # 128 KiB: from there on, one more copy of a record costs more than a system call
READS_AT_ONCE = 64  # reads of one call, where reads are slow or have failed

_NOTHING = np.array([], object)  # string [0]
_RECORD = tf.TensorSpec([], tf.string)


class RecordReads(NamedTuple):
    """n reads of consecutive records of a shard, [n] each; or one read, [] each."""

    paths: tf.Tensor  # string
    offsets: tf.Tensor  # int64, bytes
    sizes: tf.Tensor  # int64, bytes of the frames
    counts: tf.Tensor  # int64, records
    file_sizes: tf.Tensor  # int64, bytes


class Fetch:
    """Reads records of `shards`, which are found by their offsets."""

    def __init__(self, shards: Shards) -> None:
        self._paths = tf.constant(shards.paths)
        self._starts = tf.constant(shards.record_starts)
        self._file_sizes = tf.constant(shards.bytes)
        self._offsets = offsets_of(shards)
        self._is_large = shards.mean_bytes >= LARGE_BYTES
        self.in_flight = reads_in_flight(shards)
        # For large records a buffer only means one more copy; but where reads are slow, fewer reads matter
        # more.
        self._is_buffered = (
            not self._is_large or self.in_flight.is_slow or any("://" in path for path in shards.paths)
        )
        numbers, strings = (tf.TensorSpec([None], dtype) for dtype in (tf.int64, tf.string))
        reads = RecordReads(strings, numbers, numbers, numbers, numbers)
        self._again = tf_function(self._each_of_failed, reads)
        self._completed = tf_function(self._with_failed, numbers, strings, reads)

    def records(self, numbers: tf.Tensor) -> tf.Tensor:
        """Numbers over all shards, int64 [n] with n known when traced → the records, string [n].

        All are read in one call: a map over single numbers would hand each record from thread to thread.
        """
        found, count = self.reads_of(numbers), numbers.shape[0]
        records, is_whole = self._in_turn(found, count)
        return tf.cond(is_whole, lambda: records, lambda: tf.ensure_shape(self._again(found), [count]))

    def few(self, reads: RecordReads) -> tf.Tensor:
        """The records of reads of one record each, string [n] with n known when traced; a failed read is
        tried again.
        """
        count = reads.paths.shape[0]
        numbers, read = retries.firsts(self._records_at(reads, count), "")
        records = tf.cond(
            tf.size(numbers) > count, lambda: read[:-1], lambda: self._completed(numbers, read, reads)
        )
        return tf.ensure_shape(records, [count])

    def runs(self, first: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
        """Fetches runs of records, given by first record and count, int64 [runs] each; returns records,
        string [n].

        Where reads are slow, many runs are in flight at once.
        """
        reads = self._reads(first, counts)
        total = tf.reduce_sum(counts)
        # Canonical shards that have no rows left in an epoch have no runs, and a batch of no records is an
        # error.
        if self.in_flight.is_slow:
            nothing = tf.constant(_NOTHING, tf.string)
            return tf.cond(total > 0, lambda: self._each(reads), lambda: nothing)
        records = tf.data.Dataset.from_tensor_slices(reads).flat_map(no_autograph(self._of))
        together = records.batch(tf.maximum(total, 1), drop_remainder=True)
        found = retries.first_or(together, _NOTHING)
        return tf.cond(tf.size(found, tf.int64) == total, lambda: found, lambda: self._again(reads))

    def reads_of(self, numbers: tf.Tensor) -> RecordReads:
        """A read for each record of these numbers, int64 [n], counted over all shards."""
        shards = self._shard_of(numbers)
        spans = self._spans(numbers, shards)
        return RecordReads(
            paths=tf.gather(self._paths, shards),
            offsets=spans[:, 0],
            sizes=spans[:, 1] - spans[:, 0],
            counts=tf.ones_like(numbers),
            file_sizes=tf.gather(self._file_sizes, shards),
        )

    def _reads(self, first: tf.Tensor, counts: tf.Tensor) -> RecordReads:
        """Runs, cut where a shard ends.

        This is computed for all runs at once: run by run it would cost as much as reading.
        """
        after = first + counts
        if not _has_offsets():
            return self.reads_of(tf.ragged.range(first, after).flat_values)
        first_shard, last_shard = tf.split(self._shard_of(tf.concat([first, after - 1], axis=0)), 2)
        shards = tf.ragged.range(first_shard, last_shard + 1)
        run, shard = shards.value_rowids(), shards.flat_values
        begin = tf.maximum(tf.gather(first, run), tf.gather(self._starts, shard))
        end = tf.minimum(tf.gather(after, run), tf.gather(self._starts, shard + 1))
        spans = self._spans(tf.concat([begin, end - 1], axis=0), tf.concat([shard, shard], axis=0))
        starts, ends = tf.split(spans, 2)
        return RecordReads(
            paths=tf.gather(self._paths, shard),
            offsets=starts[:, 0],
            sizes=ends[:, 1] - starts[:, 0],
            counts=end - begin,
            file_sizes=tf.gather(self._file_sizes, shard),
        )

    def _in_turn(self, found: RecordReads, count: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Records, string [n], from one read after the other; and whether no read failed."""
        records = self._records_at(found, count)
        if self._is_large:
            chain = functools.reduce(tf.data.Dataset.concatenate, [record.take(1) for record in records])
            read = retries.first_or(chain.batch(count, drop_remainder=True), _NOTHING)
            return read, tf.size(read) == count
        # This takes one more copy, but is still cheaper than a chain of datasets.
        read = tf.stack(retries.first_or(tf.data.Dataset.zip(tuple(records)), ("",) * count))
        lengths = tf.strings.length(read) + FRAME_BYTES
        return read, tf.reduce_all(tf.cast(lengths, tf.int64) == found.sizes)

    def _records_at(self, found: RecordReads, count: int) -> list[tf.data.Dataset]:
        """One dataset per read; its first element is the record."""
        if not _has_offsets():
            return [_bytes_at(RecordReads(*one)) for one in zip(*map(tf.unstack, found), strict=True)]
        buffers = tf.unstack(self._buffers(found), num=count)
        # They are split, not unstacked, because the operation takes lists, here of one path and one offset.
        paths, starts = tf.split(found.paths, count), tf.split(found.offsets, count)
        return [_read(*one) for one in zip(paths, starts, buffers, strict=True)]

    def _each_of_failed(self, reads: RecordReads) -> tf.Tensor:
        """Calls `_each` after reading all of them in turn has failed: TensorFlow does not say which read
        did.
        """
        count = tf.strings.as_string(tf.size(reads.paths))
        words = tf.strings.join(["one of ", count, " reads, the first in ", reads.paths[0]])
        with tf.control_dependencies([retries.note_failed(words, reads.offsets[0])]):
            return self._each(tf.nest.map_structure(tf.identity, reads))

    def _with_failed(self, numbers: tf.Tensor, read: tf.Tensor, reads: RecordReads) -> tf.Tensor:
        """All records of n reads, string [n]: those that `retries.firsts` has read, and the others."""

        def again(failed: RecordReads) -> tf.Tensor:
            with tf.control_dependencies([retries.note_failed(failed.paths, failed.offsets)]):
                return self._whole(tf.nest.map_structure(tf.identity, failed))[0]

        numbers, read = numbers[:-1], read[:-1]
        failed, _ = tf.raw_ops.ListDiff(x=tf.range(tf.size(reads.paths, tf.int64)), y=numbers)
        # It is not mapped by a dataset, unlike in `_each`, because the function would be set up again each
        # time.
        found = for_each(again, [RecordReads(*(tf.gather(each, failed) for each in reads))])
        places = tf.math.invert_permutation(tf.concat([numbers, failed], axis=0))
        return tf.gather(tf.concat([read, found], axis=0), places)

    def _each(self, reads: RecordReads) -> tf.Tensor:
        """Returns the records of `reads`, string [n]; each read is made, and tried again, by itself."""
        each = tf.data.Dataset.from_tensor_slices(reads)
        each = each.map(no_autograph(self._whole), num_parallel_calls=READS_AT_ONCE, deterministic=True)
        return each.rebatch(tf.reduce_sum(reads.counts)).get_single_element()

    def _whole(self, read: RecordReads) -> tf.Tensor:
        """The records of one read, string [n]; it is tried again if it fails."""
        return retries.read_again(
            self._of(read).batch(read.counts, drop_remainder=True),
            nothing=_NOTHING,
            is_whole=lambda found: tf.size(found, tf.int64) == read.counts,
            path=read.paths,
            offset=read.offsets,
        )

    def _of(self, read: RecordReads) -> tf.data.Dataset:
        if not _has_offsets():
            return _bytes_at(read)
        return _read(read.paths[None], read.offsets[None], self._buffers(read)).take(read.counts)

    def _buffers(self, reads: RecordReads) -> tf.Tensor:
        return reads.sizes if self._is_buffered else tf.zeros_like(reads.sizes)

    def _spans(self, numbers: tf.Tensor, shards: tf.Tensor) -> tf.Tensor:
        """Where the frames of records begin and end, int64 [n, 2] bytes of their shards."""
        # The start of each record, and of the next one.
        starts = self._offsets(shards, numbers - tf.gather(self._starts, shards))
        is_last = numbers + 1 == tf.gather(self._starts, shards + 1)
        ends = tf.where(is_last, tf.gather(self._file_sizes, shards), starts[:, 1])
        return tf.stack([starts[:, 0], ends], axis=1)

    def _shard_of(self, numbers: tf.Tensor) -> tf.Tensor:
        return tf.searchsorted(self._starts, numbers, side="right", out_type=tf.int64) - 1


def _read(paths: tf.Tensor, offsets: tf.Tensor, buffer_bytes: tf.Tensor) -> tf.data.Dataset:
    """All records of `paths`, string [n], reads each file from its offset, int64 [n], on; checks their
    CRCs.
    """
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=paths, compression_type="", buffer_size=buffer_bytes, byte_offsets=offsets
    )
    return tf.data.experimental.from_variant(variant, _RECORD)


def _bytes_at(read: RecordReads) -> tf.data.Dataset:
    """Reads a record by its bytes, where TensorFlow lacks `TFRecordDatasetV2`; does not check its CRC."""
    start, length = read.offsets + HEADER_BYTES, read.sizes - FRAME_BYTES
    footer = read.file_sizes - start - length
    return tf.data.FixedLengthRecordDataset(read.paths, length, header_bytes=start, footer_bytes=footer)


def _has_offsets() -> bool:
    return hasattr(tf.raw_ops, "TFRecordDatasetV2")


# --- Where records start in their shards: from a table in memory or, for very many records, from the indexes.

# A look-up takes shards and ordinals in them, int64 [n] each, and gives int64 [n, 2]: the offset of each
# record and of the next one in its shard. For a shard's last record the second number has no meaning.
Offsets = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

_OFFSET_BYTES = 8
_SKIPPED_BYTES = 256 << 10  # 256 KiB: TensorFlow (2.21) reads the bytes that it skips, in pieces of this size


def offsets_of(shards: Shards) -> Offsets:
    """Looks offsets up in memory, 8 bytes a record; in the indexes if the shards hold none."""
    return _indexed(shards) if shards.offsets is None else _held(shards, shards.offsets)


def _held(shards: Shards, offsets: np.ndarray) -> Offsets:
    starts, table = tf.constant(shards.record_starts), tf.constant(np.append(offsets, 0))

    def look_up(shard: tf.Tensor, ordinals: tf.Tensor) -> tf.Tensor:
        numbers = tf.gather(starts, shard) + ordinals
        return tf.gather(table, tf.stack([numbers, numbers + 1], axis=1))

    return look_up


def _indexed(shards: Shards) -> Offsets:
    """Reads an index up to a record's offset, for each record: a millisecond if a shard has a million
    records.
    """
    paths = tf.constant([shards.index(shard).path for shard in range(len(shards.paths))])
    counts = tf.constant(np.diff(shards.record_starts))

    def look_up(shard: tf.Tensor, ordinals: tf.Tensor) -> tf.Tensor:
        before = shards_lib.offset_at(ordinals)
        after = shards_lib.size_of(tf.gather(counts, shard)) - before - 2 * _OFFSET_BYTES
        found = _pairs(tf.gather(paths, shard), before, after)
        pairs = tf.reshape(tf.io.decode_raw(found, tf.int64, little_endian=True), [-1, 2])
        return tf.ensure_shape(pairs, [ordinals.shape[0], 2])

    return look_up


def _pairs(paths: tf.Tensor, before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """The `_pair` of each of n indexes: string [n]."""
    args, count = (paths, before, after), before.shape[0]
    if count is None:
        pairs = tf.data.Dataset.from_tensor_slices(args).flat_map(no_autograph(_pair))
        number = tf.size(before, tf.int64)
        together = pairs.batch(tf.maximum(number, 1))  # a batch of no elements is an error
        return tf.cond(number > 0, together.get_single_element, lambda: tf.zeros([0], tf.string))
    # With `flat_map`, the function would be set up again at each call, which takes a tenth of a second.
    each = [_pair(*one) for one in zip(*(tf.unstack(some, num=count) for some in args), strict=True)]
    return tf.stack(tf.data.Dataset.zip(tuple(each)).get_single_element())


def _pair(path: tf.Tensor, before: tf.Tensor, after: tf.Tensor) -> tf.data.Dataset:
    """The bytes of two offsets in an index, between `before` and `after` other bytes."""
    size = 2 * _OFFSET_BYTES
    return tf.data.FixedLengthRecordDataset(
        path, size, header_bytes=before, footer_bytes=after, buffer_size=_SKIPPED_BYTES
    )


# --- How long a read of a dataset's files takes, and how many reads are therefore in flight.

# Reading from the page cache takes microseconds. Reading from a disk or over a network takes milliseconds, so
# many reads wait side by side. The order of the records does not depend on it.

MOST_READS = 512  # each one waits in a thread of its own
MOST_BYTES = 256 << 20  # 256 MiB for the records in flight
# Reads that a host can use: TensorFlow reads twice for a record, which takes a core 100 µs.
READS_PER_S = 40_000
_QUICK_S = 250e-6  # below this, waiting costs less than handing records from thread to thread
_PROBES = 16
_DISTURBED = 2  # number of slowest probes that do not count: something else ran meanwhile
_PATIENCE_S = 0.5
_BYTES = 4 << 10  # 4 KiB

Read = Callable[[str, int], None]  # reads some bytes of a file, from an offset on


@dataclasses.dataclass(frozen=True, kw_only=True)
class InFlight:
    latency_s: float  # mean time of one read
    reads: int  # reads at once; 1: there is nothing to wait for

    @property
    def is_slow(self) -> bool:
        return self.reads > 1

    def records(self, mean_bytes: float) -> int:
        """Records of this mean size that are read at once."""
        return max(1, min(self.reads, int(MOST_BYTES / mean_bytes)))

    def records_each(self, mean_bytes: float) -> int:
        """How many records of this mean size one of `reads` parallel calls may read in turn."""
        return max(1, int(MOST_BYTES / (self.reads * mean_bytes)))


def reads_in_flight(shards: Shards) -> InFlight:
    """Measures a few reads of the files as they are now: they may be in the page cache, or not."""
    took = latency(shards.paths, shards.bytes.tolist(), read=_read_sample, clock=time.perf_counter)
    return reads_for_latency(took)


def reads_for_latency(latency_s: float) -> InFlight:
    needed = -(-latency_s * READS_PER_S // 1) if latency_s >= _QUICK_S else 1
    return InFlight(latency_s=latency_s, reads=int(min(needed, MOST_READS)))


def latency(paths: Sequence[str], sizes: Sequence[int], *, read: Read, clock: Callable[[], float]) -> float:
    """Mean seconds that a read takes, measured at places spread over the files; `clock` gives seconds."""
    took = []
    for number in range(_PROBES):
        shard = number * len(paths) // _PROBES
        offset = int((number * 0.618) % 1 * max(0, sizes[shard] - _BYTES))
        began = clock()
        with contextlib.suppress(OSError, tf.errors.OpError):  # the next read of this file reports it
            read(paths[shard], offset)
        took.append(clock() - began)
        if sum(took) > _PATIENCE_S:
            break
    return statistics.mean(sorted(took)[: -_DISTURBED or None] if len(took) > 2 * _DISTURBED else took)


def _read_sample(path: str, offset: int) -> None:
    if "://" in path:
        with tf.io.gfile.GFile(path, "rb") as file:
            file.seek(offset)
            file.read(1)
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.pread(file, _BYTES, offset)
    finally:
        os.close(file)


# --- How TensorFlow runs the pipelines that read datasets: in a fixed order, without tuning.

# Groups or batches that are kept ready, besides those that threads work on: one is taken while the next
# waits.
READY = 2

_ANY_CORES = 1 << 20  # TensorFlow takes no more than the host has; by default it stops at 16


def dataset_options(operation_threads: int | None = None, *, is_served: bool = False) -> tf.data.Options:
    """A fixed order, no sharding by TensorFlow, and as many calls of a map at once as this process has cores.

    TensorFlow's tuning is off. It would give buffers up to half of the memory, and a pipeline that is closed
    would wait for its thread, which sleeps up to a minute: on one core, for 19 s after `train`'s last line.

    Args:
      operation_threads: the most threads that share one operation; None: as many as there are cores.
      is_served: the pipeline runs on another host, with as many calls as that host has cores.
    """
    chosen = tf.data.Options()
    if operation_threads:
        chosen.threading.max_intra_op_parallelism = operation_threads
    chosen.deterministic = True
    chosen.autotune.enabled = False
    # The container's quota counts, because each further call holds a group of examples.
    chosen.autotune.initial_parallelism = _ANY_CORES if is_served else math.ceil(host_cores())
    # The reader does the sharding; TensorFlow would drop or repeat examples.
    chosen.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return chosen
