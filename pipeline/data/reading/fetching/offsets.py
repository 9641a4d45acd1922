"""Where records start in their shards: from a table in memory, or, of very many, from the indexes themselves.

What looks an offset up takes shards and ordinals in them, int64 [n] each, and gives int64 [n, 2]: the offset
of each record and of the next one in its shard. Of a shard's last record the second number means nothing.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from pipeline.data.dataset import index
from pipeline.data.dataset.record_table import Shards
from pipeline.data.tracing import as_written

Offsets = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

_OFFSET_BYTES = 8
_SKIPPED_BYTES = 256 << 10  # 256 KiB: TensorFlow (2.21) reads what it skips of a file, so much at once


def of(shards: Shards) -> Offsets:
    """The offsets of these shards, 8 bytes of memory a record; none where the shards hold none."""
    return _indexed(shards) if shards.offsets is None else _held(shards, shards.offsets)


def _held(shards: Shards, offsets: np.ndarray) -> Offsets:
    starts, table = tf.constant(shards.record_starts), tf.constant(np.append(offsets, 0))

    def look_up(shard: tf.Tensor, ordinals: tf.Tensor) -> tf.Tensor:
        numbers = tf.gather(starts, shard) + ordinals
        return tf.gather(table, tf.stack([numbers, numbers + 1], axis=1))

    return look_up


def _indexed(shards: Shards) -> Offsets:
    """Reads an index up to a record's offset for each record: a millisecond, where a shard has a million."""
    paths = tf.constant([shards.index(shard).path for shard in range(len(shards.paths))])
    counts = tf.constant(np.diff(shards.record_starts))

    def look_up(shard: tf.Tensor, ordinals: tf.Tensor) -> tf.Tensor:
        before = index.offset_at(ordinals)
        after = index.size_of(tf.gather(counts, shard)) - before - 2 * _OFFSET_BYTES
        found = _pairs(tf.gather(paths, shard), before, after)
        pairs = tf.reshape(tf.io.decode_raw(found, tf.int64, little_endian=True), [-1, 2])
        return tf.ensure_shape(pairs, [ordinals.shape[0], 2])

    return look_up


def _pairs(paths: tf.Tensor, before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """`_pair` of each of n indexes: string [n]."""
    asked, count = (paths, before, after), before.shape[0]
    if count is None:
        pairs = tf.data.Dataset.from_tensor_slices(asked).flat_map(as_written(_pair))
        number = tf.size(before, tf.int64)
        together = pairs.batch(tf.maximum(number, 1))  # a batch of none is an error
        return tf.cond(number > 0, together.get_single_element, lambda: tf.zeros([0], tf.string))
    # A function such as `flat_map` takes would be set up anew at each call, for a tenth of a second.
    each = [_pair(*one) for one in zip(*(tf.unstack(some, num=count) for some in asked), strict=True)]
    return tf.stack(tf.data.Dataset.zip(tuple(each)).get_single_element())


def _pair(path: tf.Tensor, before: tf.Tensor, after: tf.Tensor) -> tf.data.Dataset:
    """The bytes of two offsets in an index: what stands between so many others."""
    size = 2 * _OFFSET_BYTES
    return tf.data.FixedLengthRecordDataset(
        path, size, header_bytes=before, footer_bytes=after, buffer_size=_SKIPPED_BYTES
    )
