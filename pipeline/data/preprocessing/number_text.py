"""Numbers from the text of a request that its clean-up has made plain, as the conversion reads them."""

import numpy as np
import tensorflow as tf

from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kinds import Numeric

_FLOAT = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_LARGEST = str((1 << 63) - 1)
# Up to the largest int64: fewer digits, or as many of which one is smaller and those before it are the same.
_SMALLER = (
    f"{_LARGEST[:at]}[0-{int(digit) - 1}][0-9]{{{len(_LARGEST) - at - 1}}}"
    for at, digit in enumerate(_LARGEST)
    if digit != "0"
)
_INTEGER = f"-?0*(?:[0-9]{{1,{len(_LARGEST) - 1}}}|{'|'.join(_SMALLER)}|{_LARGEST})|{-(1 << 63)}"


def numbers_of(feature: Numeric, texts: tf.Tensor) -> tf.Tensor:
    """Numbers [batch] as records hold them; what is no number counts as missing, or as 0 of an int64."""
    if feature.dtype == "int64":
        is_number = tf.strings.regex_full_match(texts, _INTEGER)
        numbers = tf.strings.to_number(tf.where(is_number, texts, "0"), tf.int64)
    else:
        is_number = tf.strings.regex_full_match(texts, _FLOAT)
        numbers = tf.strings.to_number(tf.where(is_number, texts, "0"), tf.float64)
        numbers = tf.cast(numbers - feature.offset, tf.float32)
        numbers = tf.where(is_number & tf.math.is_finite(numbers), numbers, np.nan)
    return filled(feature, numbers)


def without_nan(feature: Feature, numbers: tf.Tensor) -> tf.Tensor:
    """`numbers` [batch, …], with the fill value, if there is one, for NaN."""
    if feature.fill is None or not numbers.dtype.is_floating:
        return numbers
    return tf.where(tf.math.is_nan(numbers), tf.constant(feature.fill, numbers.dtype), numbers)


def filled(feature: Feature, numbers: tf.Tensor) -> tf.Tensor:
    """`numbers` [batch, …], with the fill value, if there is one, for NaN and what means "no value"."""
    if feature.fill is None:
        return numbers
    numbers = without_nan(feature, numbers)
    if not feature.clean.sentinels:
        return numbers
    dtype = numbers.dtype if numbers.dtype.is_floating else tf.float64  # as records round them
    offset = feature.offset if isinstance(feature, Numeric) else 0.0
    sentinels = tf.constant(np.array(feature.clean.sentinels) - offset, dtype)
    missing = tf.reduce_any(tf.cast(numbers, dtype)[:, None] == sentinels, axis=1)
    return tf.where(missing, tf.constant(feature.fill, numbers.dtype), numbers)


def texts_of(feature: Numeric, numbers: np.ndarray) -> list[str]:
    """Texts that a request may hold for these numbers [batch]; empty for NaN."""
    if feature.dtype == "int64":
        return [str(number) for number in numbers.tolist()]
    # All digits of the float64 that equals the float32: shorter ones need not give it back.
    raw = numbers.astype(np.float64) + feature.offset
    texts = [np.format_float_positional(number, trim="-") for number in raw]
    return ["" if text == "nan" else text.replace(".", feature.clean.decimal) for text in texts]
