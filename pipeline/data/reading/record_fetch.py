"""Records by their offset in a file, read by TensorFlow's own C++: no Python runs for a record."""

import functools
from typing import NamedTuple

import tensorflow as tf

from pipeline.data.dataset.record_table import Shards
from pipeline.data.dataset.tfrecord import FRAME_BYTES, HEADER_BYTES
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
    """Reads records of `shards`, whose table it holds as tensors: some 16 bytes a record."""

    def __init__(self, shards: Shards) -> None:
        self._paths = tf.constant(shards.paths)
        self._starts = tf.constant(shards.record_starts)
        self._offsets = tf.constant(shards.offsets)
        self._sizes = tf.constant(shards.sizes)
        self._file_sizes = tf.constant(shards.bytes)
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

    def run(self, first: tf.Tensor, count: tf.Tensor) -> tf.data.Dataset:
        """`count` records (string []) from number `first` on; they may go on in the next shards.

        Args:
          first: int64 [], a number over all shards.
          count: int64 [].
        """
        if not _has_offsets():
            locations = self._locations(tf.range(first, first + count))
            return tf.data.Dataset.from_tensor_slices(tuple(locations)).flat_map(as_written(_bytes_at))
        last = first + count - 1
        shard, after = self._shard_of(first), self._shard_of(last) + 1
        offsets = tf.concat([[self._offsets[first]], tf.zeros([after - shard - 1], tf.int64)], axis=0)
        buffer = tf.reduce_sum(self._sizes[first : first + count]) if self._is_buffered else 0
        return _read(self._paths[shard:after], offsets, buffer).take(count)

    def _locations(self, numbers: tf.Tensor) -> _Locations:
        shards = self._shard_of(numbers)
        return _Locations(
            paths=tf.gather(self._paths, shards),
            offsets=tf.gather(self._offsets, numbers),
            sizes=tf.gather(self._sizes, numbers),
            file_sizes=tf.gather(self._file_sizes, shards),
        )

    def _records_at(self, numbers: tf.Tensor) -> list[tf.data.Dataset]:
        """One dataset per number; its first element is the record."""
        found = self._locations(numbers)
        if not _has_offsets():
            return [_bytes_at(*one) for one in zip(*map(tf.unstack, found), strict=True)]
        count = numbers.shape[0]
        buffers = tf.unstack(found.sizes) if self._is_buffered else [0] * count
        # Split, not unstacked: the operation takes lists, here of one path and one offset.
        paths, offsets = tf.split(found.paths, count), tf.split(found.offsets, count)
        return [_read(*one) for one in zip(paths, offsets, buffers, strict=True)]

    def _shard_of(self, numbers: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(numbers, [-1])
        found = tf.searchsorted(self._starts, flat, side="right", out_type=tf.int64) - 1
        return tf.reshape(found, tf.shape(numbers))


def _read(paths: tf.Tensor, offsets: tf.Tensor, buffer_bytes: tf.Tensor | int) -> tf.data.Dataset:
    """All records of `paths`, string [n], each file from its offset on, int64 [n]; checks their CRCs."""
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=paths, compression_type="", buffer_size=buffer_bytes, byte_offsets=offsets
    )
    return tf.data.experimental.from_variant(variant, _RECORD)


def _bytes_at(path: tf.Tensor, offset: tf.Tensor, size: tf.Tensor, file_size: tf.Tensor) -> tf.data.Dataset:
    """The same record where TensorFlow has no `TFRecordDatasetV2`; does not check its CRC."""
    start, length = offset + HEADER_BYTES, size - FRAME_BYTES
    return tf.data.FixedLengthRecordDataset(
        path, length, header_bytes=start, footer_bytes=file_size - start - length
    )


def _has_offsets() -> bool:
    return hasattr(tf.raw_ops, "TFRecordDatasetV2")
