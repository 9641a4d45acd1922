"""Numbers from the text of a request that its clean-up has made plain, as the conversion reads them."""

import numpy as np
import tensorflow as tf

from pipeline.data.schema.feature import Feature

_FLOAT = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_INTEGER = "-?[0-9]{1,18}"


def numbers_of(feature: Feature, texts: tf.Tensor) -> tf.Tensor:
    """Numbers [batch] of the feature's dtype; what is no number counts as missing, or as 0 of an int64."""
    if feature.dtype == "int64":
        is_number = tf.strings.regex_full_match(texts, _INTEGER)
        numbers = tf.strings.to_number(tf.where(is_number, texts, "0"), tf.int64)
    else:
        is_number = tf.strings.regex_full_match(texts, _FLOAT)
        numbers = tf.strings.to_number(tf.where(is_number, texts, "0"), tf.float64)
        numbers = tf.cast(numbers, tf.float32)
        numbers = tf.where(is_number & tf.math.is_finite(numbers), numbers, np.nan)
    return filled(feature, numbers)


def filled(feature: Feature, numbers: tf.Tensor) -> tf.Tensor:
    """`numbers` [batch, …], with the fill value, if there is one, for NaN and what means "no value"."""
    if feature.fill is None:
        return numbers
    is_float = numbers.dtype.is_floating
    missing = tf.math.is_nan(numbers) if is_float else tf.zeros_like(numbers, tf.bool)
    if feature.clean.sentinels:
        dtype = numbers.dtype if is_float else tf.float64  # as records round them
        sentinels = tf.constant(feature.clean.sentinels, dtype)
        missing |= tf.reduce_any(tf.cast(numbers, dtype)[:, None] == sentinels, axis=1)
    return tf.where(missing, tf.constant(feature.fill, numbers.dtype), numbers)


def texts_of(feature: Feature, numbers: np.ndarray) -> list[str]:
    """Texts that a request may hold for these numbers [batch]; empty for NaN."""
    if feature.dtype == "int64":
        return [str(number) for number in numbers.tolist()]
    # All digits of the float64 that equals the float32: shorter ones need not give it back.
    texts = [np.format_float_positional(number, trim="-") for number in numbers.astype(np.float64)]
    return ["" if text == "nan" else text.replace(".", feature.clean.decimal) for text in texts]
