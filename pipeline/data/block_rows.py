"""Rows of blocks in TensorFlow: from serialized blocks to words, and from words to feature tensors."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from pipeline.data import block_frame, blocks
from pipeline.data.feature import Feature
from pipeline.data.features import Categorical
from pipeline.data.schema import Schema

UNKNOWN_VALUE = "\ufffd"  # stands for a string that a block does not hold, as no vocabulary lists it


def words_of_blocks(serialized: tf.Tensor, schema: Schema) -> tf.Tensor:
    """Serialized blocks, string [n] → their rows, those that only fill up too: uint16 [n * rows, words].

    Cut out, as they lie at the same place in every block: parsing an Example takes twice the time.
    """
    frame = block_frame.of_schema(schema)
    payloads = tf.strings.substr(serialized, frame.rows_at, frame.payload)
    words = tf.io.decode_raw(payloads, tf.uint16, little_endian=True)
    return tf.reshape(words, [-1, words_in_row(schema)])


def words_in_row(schema: Schema) -> int:
    return blocks.geometry(schema).width // blocks.WORD_BYTES


def features_of_words(words: tf.Tensor, schema: Schema) -> dict[str, tf.Tensor]:
    """Rows, uint16 [n, words] → features [n, *feature.shape]: float32, or int32 where the block holds such.

    A categorical of a listed vocabulary is an index into it, `blocks.UNKNOWN` or `blocks.MISSING`.
    """
    dtype = blocks.row_dtype(schema)
    return {
        feature.name: _field(words, dtype[feature.name], dtype.fields[feature.name][1], feature.shape)
        for feature in schema.features
    }


def raw_of_compact(features: Mapping[str, tf.Tensor], schema: Schema) -> dict[str, tf.Tensor]:
    """Features of blocks → what parsing a record gives: strings in place of indices, int64 for int32."""
    return {name: _raw(tensor, schema[name]) for name, tensor in features.items()}


def _raw(tensor: tf.Tensor, feature: Feature) -> tf.Tensor:
    if not blocks.is_index(feature):
        return tf.cast(tensor, tf.int64) if tensor.dtype == tf.int32 else tensor
    return tf.gather(tf.constant(values_by_index(feature)), tensor - blocks.MISSING)


def values_by_index(feature: Categorical) -> list[str]:
    """What a block's indices stand for, from `blocks.MISSING` on."""
    missing = "" if feature.fill is None else str(feature.fill)
    return [missing, UNKNOWN_VALUE, *feature.vocabulary]


def _field(words: tf.Tensor, dtype: np.dtype, offset: int, shape: tuple[int, ...]) -> tf.Tensor:
    first, last = offset // blocks.WORD_BYTES, (offset + dtype.itemsize) // blocks.WORD_BYTES
    part = words[:, first:last]  # (rows, words of the field)
    rows = tf.shape(words)[0]
    if dtype.base == np.uint16:
        numbers = tf.cast(part, tf.int32)
    else:
        numbers = tf.bitcast(
            tf.reshape(part, [rows, -1, dtype.base.itemsize // blocks.WORD_BYTES]), dtype.base
        )
    return tf.ensure_shape(tf.reshape(numbers, [rows, *shape]), [words.shape[0], *shape])
