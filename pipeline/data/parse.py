"""Serialized examples → raw feature tensors, by the schema."""

import tensorflow as tf

from pipeline.data.block_rows import features_of_words
from pipeline.data.feature import Feature
from pipeline.data.features import Label
from pipeline.data.schema import Schema

DTYPES = {"float32": tf.float32, "int64": tf.int64, "string": tf.string}


def parsing_spec(schema: Schema, *, with_label: bool = True) -> dict[str, tf.io.FixedLenFeature]:
    """What `tf.io.parse_example` needs; features with a fill value may be absent from a record."""
    features = schema.features if with_label else schema.inputs
    return {feature.name: _fixed_length(feature) for feature in features}


def parse_examples(serialized: tf.Tensor, schema: Schema) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Parses a whole batch at once, 6–8 times cheaper than one by one (measured on 40 columns).

    Args:
      serialized: string [batch].

    Returns:
      Raw inputs, each [batch, *feature.shape], and labels [batch]: int32 classes or float32 values.
    """
    features = tf.io.parse_example(serialized, parsing_spec(schema))
    label = features.pop(schema.label.name)
    return features, cast_label(label, schema.label)


def parse_rows(rows: tf.Tensor, schema: Schema) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """The same of rows as the reader gives them: serialized examples, or words of blocks."""
    if rows.dtype == tf.string:
        return parse_examples(rows, schema)
    features = features_of_words(rows, schema)
    label = features.pop(schema.label.name)
    return features, cast_label(label, schema.label)


def cast_label(label: tf.Tensor, feature: Label) -> tf.Tensor:
    # TPUs have no int64 arithmetic worth using, so classes leave the host as int32.
    return tf.cast(label, tf.float32 if feature.task == "regression" else tf.int32)


def _fixed_length(feature: Feature) -> tf.io.FixedLenFeature:
    return tf.io.FixedLenFeature(feature.shape, DTYPES[feature.dtype], default_value=feature.fill)
