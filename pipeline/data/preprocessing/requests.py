"""The schema's clean-up as tensor operations, for raw values that reach a serving signature.

Conversion has cleaned what is stored, and cleaning twice changes nothing. A request may spell a value as the
raw data did (" Private", "?"), or lack it (NaN): it gets the prediction for the stored value.
"""

import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from pipeline.data.preprocessing.numbers import filled, without_nan
from pipeline.data.preprocessing.preprocess import BY_TYPE
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema


def clean_requests(features: dict[str, tf.Tensor], schema: Schema) -> dict[str, tf.Tensor]:
    """`features`, each [batch, …], with strings [batch] cleaned, and defaults in place of NaN.

    Where a record holds a number, the string is also read as one.
    """
    cleaned = dict(features)
    for feature in schema.inputs:
        values = features[feature.name]
        if values.dtype == tf.string and BY_TYPE.of(feature).is_text:
            cleaned[feature.name] = _value(feature, values)
        elif feature.is_text_in_requests:
            cleaned[feature.name] = without_nan(feature, values)
        else:
            cleaned[feature.name] = filled(feature, values)
    return cleaned


def _value(feature: Feature, values: tf.Tensor) -> tf.Tensor:
    """The raw text `values`, string [batch], as a record would hold it."""
    cleaned, missing = _clean(values, feature)
    read = BY_TYPE.of(feature).read
    if read is None:
        # A request cannot be rejected row by row: without a fill value the empty string stands in.
        return tf.where(missing, str(feature.fill or ""), cleaned)
    numbers = read(feature, tf.where(missing, "", cleaned))
    if feature.fill is None:
        return numbers
    return tf.where(missing, tf.constant(feature.fill, numbers.dtype), numbers)


def _clean(values: tf.Tensor, feature: Feature) -> tuple[tf.Tensor, tf.Tensor]:
    """Cleaned text [batch], and where it means "no value", bool [batch]."""
    clean = feature.clean
    if clean.strip:
        # Characters are given by their numbers, because "[:" would begin a class of characters.
        characters = "".join(f"\\x{{{ord(character):x}}}" for character in clean.strip)
        values = tf.strings.regex_replace(values, f"^[{characters}]+|[{characters}]+$", "")
    cleaned, missing = values, tf.zeros_like(values, tf.bool)
    for spelling, value in clean.aliases.items():
        cleaned = tf.where(values == spelling, value, cleaned)
    for marker in clean.null_markers:
        missing |= values == marker
    if clean.misplaced:
        cleaned = tf.where(
            tf.strings.regex_full_match(values, f"(?s:.*)(?:{clean.misplaced})(?s:.*)"), "?", cleaned
        )
    for part in clean.remove:
        cleaned = tf.strings.regex_replace(cleaned, re.escape(part), "")
    if clean.decimal != ".":
        cleaned = tf.strings.regex_replace(cleaned, re.escape(clean.decimal), ".")
    return cleaned, missing


# --- Texts that cannot be read. They are answered as missing ones, because a graph cannot refuse one row.


def read_from_text(schema: Schema) -> list[Feature]:
    """Returns the features that requests hold as text, and records as numbers or points in time."""
    return [
        feature for feature in schema.inputs if feature.is_text_in_requests and BY_TYPE.of(feature).are_read
    ]


def unread(features: Mapping[str, tf.Tensor], schema: Schema) -> tf.Tensor:
    """Names the features with a text that is not missing and cannot be read: string [batch].

    Conversion and `beam_jobs.predict` would reject such a row. Several names have commas between them;
    the text is empty where every value can be read.

    Args:
      features: as requests hold them, at least those of `read_from_text`, which must be one or more.
    """
    read = read_from_text(schema)
    names = tf.zeros_like(features[read[0].name])
    for feature in read:
        cleaned, missing = _clean(features[feature.name], feature)
        is_unread = ~(missing | BY_TYPE.of(feature).are_read(feature, cleaned))
        more = tf.where(names == "", feature.name, tf.strings.join([names, feature.name], separator=", "))
        names = tf.where(is_unread, more, names)
    return names


# --- Raw features → serialized `tf.train.Example`s, row by row; Beam jobs have a faster way.


def serialize(features: Mapping[str, np.ndarray], schema: Schema) -> list[bytes]:
    """One Example for each row of `features`, each [rows, *feature.shape]. An Example holds only these
    features.
    """
    (rows,) = {len(values) for values in features.values()}
    return [
        tf.train.Example(
            features=tf.train.Features(
                feature={name: _feature(schema[name], values[row]) for name, values in features.items()}
            )
        ).SerializeToString(deterministic=True)
        for row in range(rows)
    ]


def _feature(feature: Feature, value: np.ndarray) -> tf.train.Feature:
    if feature.wire == "bytes":
        # The values are objects, because numpy's own type for bytes drops zeros at the end, which a WebP file
        # may have.
        values = np.ravel(np.asarray(value, object)).tolist()
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    values = np.ravel(value).tolist()
    if feature.wire == "int64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))
