"""Records by their place in a file, in TensorFlow's own C++: nothing of Python runs for a record."""

import functools

import tensorflow as tf

from pipeline.data.framing import FRAME_BYTES, HEADER_BYTES
from pipeline.data.graph import as_written
from pipeline.data.shards import Shards

LARGE_BYTES = 128 << 10  # 128 KiB: of such records one copy more costs more than a call of the system

_RECORD = tf.TensorSpec([], tf.string)


class Fetch:
    """Reads records of `shards`; holds its table as tensors, some 16 bytes a record."""

    def __init__(self, shards: Shards) -> None:
        self._paths = tf.constant(shards.paths)
        self._starts = tf.constant(shards.record_starts)
        self._offsets = tf.constant(shards.offsets)
        self._sizes = tf.constant(shards.sizes)
        self._file_sizes = tf.constant(shards.bytes)
        self._is_large = shards.mean_bytes >= LARGE_BYTES
        # Of large records a buffer would only be one more copy; but far away every read is a request.
        self._is_buffered = not self._is_large or any("://" in path for path in shards.paths)

    def records(self, numbers: tf.Tensor) -> tf.Tensor:
        """The records numbered int64 [n], n known when traced: string [n].

        All in one call: mapping a dataset of numbers to records would hand every one from thread to thread.
        """
        records = self._records_at(numbers)
        if not self._is_large:  # copied once more, and yet cheaper than a chain
            return tf.stack(tf.data.Dataset.zip(*records).take(1).get_single_element())
        chain = functools.reduce(tf.data.Dataset.concatenate, [record.take(1) for record in records])
        return chain.batch(len(records)).get_single_element()

    def run(self, first: tf.Tensor, count: tf.Tensor) -> tf.data.Dataset:
        """`count` records from number `first` on, over the ends of shards if need be: string [] each."""
        if not _has_offsets():
            places = self._places(tf.range(first, first + count))
            return tf.data.Dataset.from_tensor_slices(places).flat_map(as_written(_bytes_at))
        last = first + count - 1
        shard, after = self._shard_of(first), self._shard_of(last) + 1
        offsets = tf.concat([[self._offsets[first]], tf.zeros([after - shard - 1], tf.int64)], axis=0)
        buffer = tf.reduce_sum(self._sizes[first : first + count]) if self._is_buffered else 0
        return _read(self._paths[shard:after], offsets, buffer).take(count)

    def _places(self, numbers: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Path, offset, size and the file's size of each record."""
        shards = self._shard_of(numbers)
        return (
            tf.gather(self._paths, shards),
            tf.gather(self._offsets, numbers),
            tf.gather(self._sizes, numbers),
            tf.gather(self._file_sizes, shards),
        )

    def _records_at(self, numbers: tf.Tensor) -> list[tf.data.Dataset]:
        """Of each number its record, and perhaps those behind it."""
        paths, offsets, sizes, file_sizes = self._places(numbers)
        if not _has_offsets():
            columns = (paths, offsets, sizes, file_sizes)
            return [_bytes_at(*place) for place in zip(*map(tf.unstack, columns), strict=True)]
        count = numbers.shape[0]
        buffers = tf.unstack(sizes) if self._is_buffered else [0] * count
        # Split and not unstacked: lists of one path and one offset are what is asked for.
        places = zip(tf.split(paths, count), tf.split(offsets, count), buffers, strict=True)
        return [_read(*place) for place in places]

    def _shard_of(self, numbers: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(numbers, [-1])
        found = tf.searchsorted(self._starts, flat, side="right", out_type=tf.int64) - 1
        return tf.reshape(found, tf.shape(numbers))


def _read(paths: tf.Tensor, offsets: tf.Tensor, buffer_bytes: tf.Tensor | int) -> tf.data.Dataset:
    """All records of `paths`, each file from its offset on; checks their CRCs."""
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
