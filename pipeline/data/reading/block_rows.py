"""Rows of blocks in TensorFlow: from serialized blocks to words, and from words to feature tensors."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.data.dataset import block_frame, blocks
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema

UNKNOWN_VALUE = "\ufffd"  # in place of a string that the vocabulary does not list: blocks hold only UNKNOWN


def words_of_blocks(serialized: tf.Tensor, schema: Schema) -> tf.Tensor:
    """Serialized blocks, string [n] → all their rows, also those that only fill up: uint16 [n * rows, words].

    Rows are cut out at the offset that they have in every block: parsing an Example takes twice the time.
    """
    frame = block_frame.of_schema(schema)
    payloads = tf.strings.substr(serialized, frame.rows_at, frame.payload)
    words = tf.io.decode_raw(payloads, tf.uint16, little_endian=True)
    return tf.reshape(words, [-1, words_in_row(schema)])


def words_in_row(schema: Schema) -> int:
    """uint16 words in a row of a block."""
    return blocks.geometry(schema).width // blocks.WORD_BYTES


def features_of_words(words: tf.Tensor, schema: Schema) -> dict[str, tf.Tensor]:
    """Rows, uint16 [n, words] → features [n, *feature.shape] of float32, int32 or int64.

    The dtype is that of `blocks.field`; uint16 tokens become int32. A value of a listed vocabulary stays an
    index into it, `blocks.UNKNOWN` or `blocks.MISSING`.
    """
    dtype = blocks.row_dtype(schema)
    return {
        feature.name: _field(words, dtype[feature.name], dtype.fields[feature.name][1], feature.shape)
        for feature in schema.features
    }


def raw_of_compact(features: Mapping[str, tf.Tensor], schema: Schema) -> dict[str, tf.Tensor]:
    """Features of blocks → those that parsing a record gives: strings for indices, int64 for int32.

    Every tensor keeps its shape [n, *feature.shape].
    """
    return {name: _raw(tensor, schema[name]) for name, tensor in features.items()}


def _raw(tensor: tf.Tensor, feature: Feature) -> tf.Tensor:
    vocabulary = blocks.field(feature).vocabulary
    if not vocabulary:
        return tf.cast(tensor, tf.int64) if tensor.dtype == tf.int32 else tensor
    return tf.gather(tf.constant(values_by_index(feature, vocabulary)), tensor - blocks.MISSING)


def values_by_index(feature: Feature, vocabulary: Sequence[str]) -> list[str]:
    """What a block's indices into `vocabulary` stand for, from `blocks.MISSING` on."""
    missing = "" if feature.fill is None else str(feature.fill)
    return [missing, UNKNOWN_VALUE, *vocabulary]


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
