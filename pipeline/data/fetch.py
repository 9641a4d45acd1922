"""Records by their place in a file, in TensorFlow's own C++: nothing of Python runs for a record."""

import tensorflow as tf

from pipeline.data.framing import FRAME_BYTES, HEADER_BYTES
from pipeline.data.graph import as_written
from pipeline.data.shards import Shards

UNBUFFERED_BYTES = 128 << 10  # 128 KiB

_RECORD = tf.TensorSpec([], tf.string)


class Fetch:
    """Reads records of `shards`; holds its table as tensors, some 16 bytes a record."""

    def __init__(self, shards: Shards) -> None:
        self._paths = tf.constant(shards.paths)
        self._starts = tf.constant(shards.record_starts)
        self._offsets = tf.constant(shards.offsets)
        self._sizes = tf.constant(shards.sizes)
        self._file_sizes = tf.constant(shards.bytes)
        # Of large records a buffer would only be one more copy; but far away every read is a request.
        is_local = not any("://" in path for path in shards.paths)
        self._unbuffered = is_local and shards.mean_bytes >= UNBUFFERED_BYTES

    def records(self, numbers: tf.Tensor) -> tf.Tensor:
        """The records numbered int64 [n], n known when traced: string [n].

        All in one call: mapping a dataset of numbers to records would hand every one from thread to thread.
        """
        places = [tf.unstack(column) for column in self._places(numbers)]
        records = tuple(_record_at(*place) for place in zip(*places, strict=True))
        return tf.stack(tf.data.Dataset.zip(records).take(1).get_single_element())

    def run(self, first: tf.Tensor, count: tf.Tensor) -> tf.data.Dataset:
        """`count` records from number `first` on, over the ends of shards if need be: string [] each."""
        if not _has_offsets():
            places = self._places(tf.range(first, first + count))
            return tf.data.Dataset.from_tensor_slices(places).flat_map(as_written(_bytes_at))
        last = first + count - 1
        shard, after = self._shard_of(first), self._shard_of(last) + 1
        offsets = tf.concat([[self._offsets[first]], tf.zeros([after - shard - 1], tf.int64)], axis=0)
        buffer = 0 if self._unbuffered else tf.reduce_sum(self._sizes[first : first + count])
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

    def _shard_of(self, numbers: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(numbers, [-1])
        found = tf.searchsorted(self._starts, flat, side="right", out_type=tf.int64) - 1
        return tf.reshape(found, tf.shape(numbers))


def _record_at(path: tf.Tensor, offset: tf.Tensor, size: tf.Tensor, file_size: tf.Tensor) -> tf.data.Dataset:
    """The record, and perhaps those behind it."""
    if _has_offsets():
        return _read(path[None], offset[None], size)
    return _bytes_at(path, offset, size, file_size)


def _read(paths: tf.Tensor, offsets: tf.Tensor, buffer_bytes: tf.Tensor) -> tf.data.Dataset:
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
