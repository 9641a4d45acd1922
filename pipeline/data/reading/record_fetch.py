"""Records by their offset in a file, read by TensorFlow's own C++: no Python runs for a record."""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.record_table import Shards
from pipeline.data.dataset.tfrecord import FRAME_BYTES, HEADER_BYTES
from pipeline.data.reading import offsets
from pipeline.data.tracing import as_written

LARGE_BYTES = 128 << 10  # 128 KiB: from there on, one more copy of a record costs more than a system call

_RECORD = tf.TensorSpec([], tf.string)


class _Locations(NamedTuple):
    """Where n records are: [n] each."""

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
        # For large records a buffer is only one more copy; but on remote storage every read is a request.
        self._is_buffered = not self._is_large or any("://" in path for path in shards.paths)

    def records(self, numbers: tf.Tensor) -> tf.Tensor:
        """Numbers over all shards, int64 [n] with n known when traced → the records, string [n].

        All are read in one call: a map over single numbers would hand each record from thread to thread.
        """
        records = self._records_at(numbers)
        if not self._is_large:  # one more copy, and still cheaper than a chain
            return tf.stack(tf.data.Dataset.zip(*records).take(1).get_single_element())
        chain = functools.reduce(tf.data.Dataset.concatenate, [record.take(1) for record in records])
        return chain.batch(len(records)).get_single_element()

    def runs(self, first: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
        """Runs of records, each so many from its first one on, int64 [runs] each → string [n]."""
        if not _has_offsets():
            locations = self._locations(tf.ragged.range(first, first + counts).flat_values)
            records = tf.data.Dataset.from_tensor_slices(tuple(locations)).flat_map(as_written(_bytes_at))
        else:
            records = tf.data.Dataset.from_tensor_slices(self._pieces(first, counts)).flat_map(_piece)
        return records.batch(tf.reduce_sum(counts)).get_single_element()

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

    def _locations(self, numbers: tf.Tensor) -> _Locations:
        shards, spans = self._shard_of(numbers), self._spans(numbers)
        return _Locations(
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

    def _records_at(self, numbers: tf.Tensor) -> list[tf.data.Dataset]:
        """One dataset per number; its first element is the record."""
        found = self._locations(numbers)
        if not _has_offsets():
            return [_bytes_at(*one) for one in zip(*map(tf.unstack, found), strict=True)]
        count = numbers.shape[0]
        buffers = tf.unstack(found.sizes, num=count) if self._is_buffered else [0] * count
        # Split, not unstacked: the operation takes lists, here of one path and one offset.
        paths, starts = tf.split(found.paths, count), tf.split(found.offsets, count)
        return [_read(*one) for one in zip(paths, starts, buffers, strict=True)]

    def _shard_of(self, numbers: tf.Tensor) -> tf.Tensor:
        return tf.searchsorted(self._starts, numbers, side="right", out_type=tf.int64) - 1


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
