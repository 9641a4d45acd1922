"""Serialized examples → raw feature tensors, by the schema."""

from collections.abc import Collection

import tensorflow as tf

from pipeline.data.reading.block_rows import features_of_words, raw_of_compact
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kinds import Label
from pipeline.data.schema.schema import Schema

DTYPES = {"float32": tf.float32, "int64": tf.int64, "string": tf.string}


def parsing_spec(schema: Schema, *, with_label: bool = True) -> dict[str, tf.io.FixedLenFeature]:
    """What `tf.io.parse_example` needs; a record may lack a feature that has a fill value."""
    features = schema.features if with_label else schema.inputs
    return {feature.name: _fixed_length(feature) for feature in features}


def parse_examples(serialized: tf.Tensor, schema: Schema) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Parses a whole batch at once: 6–8 times cheaper than one by one (measured on 40 columns).

    Args:
      serialized: string [batch].

    Returns:
      Raw inputs, each [batch, *feature.shape], and labels [batch]: int32 classes or float32 values.
    """
    features = tf.io.parse_example(serialized, parsing_spec(schema))
    label = features.pop(schema.label.name)
    return features, cast_label(label, schema.label)


def parse_rows(rows: tf.Tensor, schema: Schema) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Rows as they are read, string [batch] or uint16 [batch, words] → what `parse_examples` returns."""
    if rows.dtype == tf.string:
        return parse_examples(rows, schema)
    features = features_of_words(rows, schema)
    label = features.pop(schema.label.name)
    return features, cast_label(label, schema.label)


def stored_features(
    rows: tf.Tensor, schema: Schema, names: Collection[str] | None = None
) -> dict[str, tf.Tensor]:
    """What rows hold of the features `names`, or of all: [batch, *feature.shape] each.

    Rows of blocks give what a record would: a string in place of its index.

    Args:
      rows: as they are read, string [batch] or uint16 [batch, words].
    """
    if rows.dtype == tf.string:
        spec = parsing_spec(schema)
        return tf.io.parse_example(rows, {name: spec[name] for name in (spec if names is None else names)})
    compact = features_of_words(rows, schema)
    kept = compact if names is None else {name: compact[name] for name in names}
    return raw_of_compact(kept, schema)


def cast_label(label: tf.Tensor, feature: Label) -> tf.Tensor:
    """Labels, int64 or float32 [batch] → int32 classes or float32 values [batch]."""
    # TPUs have no int64 arithmetic worth using, so classes leave the host as int32.
    return tf.cast(label, tf.int32 if feature.dtype == "int64" else tf.float32)


def _fixed_length(feature: Feature) -> tf.io.FixedLenFeature:
    return tf.io.FixedLenFeature(feature.shape, DTYPES[feature.dtype], default_value=feature.fill)
