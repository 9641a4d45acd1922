"""The schema's clean-up as tensor operations, for raw strings that reach a serving signature.

Conversion has cleaned what is stored, and cleaning twice changes nothing. A request that spells a value as
the raw data did (" Private", "?") gives what the stored value gives.
"""

import re

import tensorflow as tf

from pipeline.data.preprocessing.kinds import OF_KIND
from pipeline.data.preprocessing.number_text import without_sentinels
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema


def clean_strings(features: dict[str, tf.Tensor], schema: Schema) -> dict[str, tf.Tensor]:
    """`features`, each [batch, …], with the strings [batch] cleaned; read, where a record holds a number."""
    cleaned = dict(features)
    for feature in schema.inputs:
        if features[feature.name].dtype == tf.string and OF_KIND.of(feature).is_text:
            cleaned[feature.name] = _value(feature, features[feature.name])
        elif not (feature.is_text_in_requests or feature.shape):
            cleaned[feature.name] = without_sentinels(feature, features[feature.name])
    return cleaned


def _value(feature: Feature, values: tf.Tensor) -> tf.Tensor:
    """What a record would hold of the raw text `values`, string [batch]."""
    cleaned, missing = _clean(values, feature)
    read = OF_KIND.of(feature).read
    if read is None:
        # A request cannot be rejected row by row: without a fill value the empty string stands in.
        return tf.where(missing, str(feature.fill or ""), cleaned)
    numbers = read(feature, tf.where(missing, "", cleaned))
    if feature.fill is None:
        return numbers
    return tf.where(missing, tf.constant(feature.fill, numbers.dtype), numbers)


def _clean(values: tf.Tensor, feature: Feature) -> tuple[tf.Tensor, tf.Tensor]:
    """Cleaned text [batch], and which of it means "no value", bool [batch]."""
    clean = feature.clean
    if clean.strip:
        characters = re.sub(r"([\\\]^-])", r"\\\1", clean.strip)
        values = tf.strings.regex_replace(values, f"^[{characters}]+|[{characters}]+$", "")
    cleaned, missing = values, tf.zeros_like(values, tf.bool)
    for spelling, value in clean.aliases.items():
        cleaned = tf.where(values == spelling, value, cleaned)
    for marker in clean.null_markers:
        missing |= values == marker
    for part in clean.remove:
        cleaned = tf.strings.regex_replace(cleaned, re.escape(part), "")
    if clean.decimal != ".":
        cleaned = tf.strings.regex_replace(cleaned, re.escape(clean.decimal), ".")
    return cleaned, missing
