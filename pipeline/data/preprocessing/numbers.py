"""Turns numbers into what a model takes: how far each is from the mean, and the bin that it falls into.

Bins are quantiles; a number that occurs often has a bin of its own.

Differences are taken in float64, unless the statistics of a column say that float32 loses nothing. It can
lose much: of 854 different seconds in an hour of Unix time it keeps 43. This runs where records are read, on
the host's processor, never on an accelerator.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.statistics.drift import COARSEST, most_lost, rounding, way_out

Transform = Callable[..., tf.Tensor]

# Only a request has larger numbers. Up to here, a model's sums of numbers, and sums of these, are finite in
# float32.
FARTHEST = 1e18
_WIDEST_FLOAT32 = 1e30
# TensorFlow's threads may treat numbers that are closer to 0 as 0.
_SMALLEST = np.finfo(np.float32).tiny


def standardized(features: Sequence[Numeric], measured: Mapping[str, FeatureStatistics]) -> Transform:
    """A function of n features' numbers, each [batch], to float32 [batch, n] of zero mean and unit variance.

    NaN stays NaN.

    Raises:
      InputError: the type in which a feature's numbers are stored cannot tell them apart.
    """
    for feature in features:
        require_distinct(feature, measured[feature.name])
    means, scales = np.array([_mean_and_scale(each, measured[each.name]) for each in features]).T
    precisions = [_precision(feature, measured[feature.name]) for feature in features]

    def of_group(columns: list[tf.Tensor], places: list[int]) -> tf.Tensor:
        precision = precisions[places[0]]
        mean, scale = (values[places].astype(precision.as_numpy_dtype) for values in (means, scales))
        return tf.cast((tf.cast(tf.stack(columns, axis=1), precision) - mean) * scale, tf.float32)

    return _in_groups(list(zip([each.dtype for each in features], precisions, strict=True)), of_group)


def standardized_quantiles(
    features: Sequence[Numeric], measured: Mapping[str, FeatureStatistics]
) -> tuple[tuple[float, ...], ...]:
    """The quantiles of each feature, ascending, as `standardized` gives its numbers; none where nothing was
    measured.
    """
    return tuple(_quantiles(each, measured[each.name]) for each in features)


def _quantiles(feature: Numeric, statistics: FeatureStatistics) -> tuple[float, ...]:
    summary = statistics.numeric
    if summary is None:
        return ()
    mean, scale = _mean_and_scale(feature, statistics)
    different = np.unique(summary.distribution or summary.quantiles)
    return tuple(((different - mean) * scale).tolist())


def has_main_value(statistics: FeatureStatistics) -> bool:
    """Whether one value has more than half of the rows, such as no capital gain.

    Quantiles then say little of the other values, each of which may have a meaning of its own. With bins of
    such numbers as categories, `tabular` reaches an AUC of .9287 on Adult in place of .9204.
    """
    quantiles = statistics.numeric.distribution if statistics.numeric else ()
    _, counts = np.unique(quantiles, return_counts=True)
    return len(quantiles) > 0 and counts.max() > len(quantiles) / 2


def bin_ids(
    features: Sequence[Numeric], measured: Mapping[str, FeatureStatistics]
) -> tuple[Transform, tuple[int, ...]]:
    """Returns a function from n features' numbers, [batch] each, to bins, and the number of ids of each
    feature.

    The bins are int32 [batch, n], from 1, and 0 for NaN.
    """
    boundaries = [_boundaries(feature, measured[feature.name]) for feature in features]

    def of_group(columns: list[tf.Tensor], places: list[int]) -> tf.Tensor:
        found = [_bin(values, boundaries[at]) for values, at in zip(columns, places, strict=True)]
        bins = 1 + tf.stack(found, axis=1)
        if not columns[0].dtype.is_floating:
            return bins
        return zero_where(tf.math.is_nan(tf.stack(columns, axis=1)), bins)

    sizes = tuple(len(each) + 2 for each in boundaries)
    return _in_groups([each.dtype for each in features], of_group), sizes


def missing(*columns: tf.Tensor) -> tf.Tensor:
    """n features' numbers, each [batch] → float32 [batch, n]: 1 where the number is missing."""
    return tf.cast(tf.math.is_nan(tf.stack(columns, axis=1)), tf.float32)


def flat(values: tf.Tensor) -> tf.Tensor:
    """Numbers [batch, *shape] → float32 [batch, product of the shape]."""
    return tf.reshape(tf.cast(values, tf.float32), [-1, math.prod(values.shape[1:])])


def bounded(numbers: tf.Tensor) -> tf.Tensor:
    """float32 of any shape, with 0 in place of NaN, cut to ±`FARTHEST`, so that no model answers NaN."""

    def cut() -> tf.Tensor:
        ends = zero_where(tf.math.is_nan(numbers), tf.clip_by_value(numbers, -FARTHEST, FARTHEST))
        # Numbers within the limits stay as they are, whatever else is in the batch: cutting would turn the
        # smallest numbers into 0.
        return tf.compat.v1.where(tf.abs(numbers) <= FARTHEST, numbers, ends)

    # Nearly always there is nothing to cut. Half of the sum of all squares shows this in one pass; cutting
    # takes eight. The sum is NaN if a number is NaN, and above this limit if one is beyond ±FARTHEST, however
    # it is rounded.
    return tf.cond(tf.nn.l2_loss(numbers) <= FARTHEST**2 / 4, lambda: numbers, cut)


def zero_where(is_zero: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """Numbers of any shape and type, with 0 where `is_zero` is true: a bool of that shape, or [n] for whole
    rows.

    `tf.where` broadcasts even tensors of one shape, which takes several times as long.
    """
    return tf.compat.v1.where(is_zero, tf.zeros_like(numbers), numbers)


def _in_groups(
    keys: Sequence[Hashable], of_group: Callable[[list[tf.Tensor], list[int]], tf.Tensor]
) -> Transform:
    """A function of columns, each [batch], to [batch, n], which handles columns of equal keys together.

    Thousands of columns would be thousands of operations otherwise.

    Args:
      of_group: function (the columns of one key, their places) → [batch, k].
    """
    groups = [[at for at, each in enumerate(keys) if each == key] for key in dict.fromkeys(keys)]
    order = np.argsort([at for places in groups for at in places])

    def of_all(*columns: tf.Tensor) -> tf.Tensor:
        parts = [of_group([columns[at] for at in places], places) for places in groups]
        return parts[0] if len(parts) == 1 else tf.gather(tf.concat(parts, axis=1), order, axis=1)

    return of_all


def _bin(values: tf.Tensor, boundaries: np.ndarray) -> tf.Tensor:
    """Counts the boundaries that are not above each value: int32, of the values' shape."""
    if not values.dtype.is_floating:
        return tf.searchsorted(tf.constant(boundaries), values, side="right")
    # This takes a third of the time of searchsorted, which takes tensors of any rank.
    return tf.raw_ops.Bucketize(input=values, boundaries=boundaries.tolist())


def _boundaries(feature: Numeric, statistics: FeatureStatistics) -> np.ndarray:
    summary = statistics.numeric
    quantiles = _as_stored(np.array((summary and summary.quantiles[1:-1]) or [0.0]), feature)
    repeated = _as_stored(np.array(summary.repeated if summary else ()), feature)
    if feature.dtype == "float32":
        repeated = repeated[(repeated == 0) | (np.abs(repeated) >= _SMALLEST)]
    return np.unique(np.concatenate([quantiles, repeated, _next(repeated)]))


def _next(numbers: np.ndarray) -> np.ndarray:
    if numbers.dtype.kind == "i":
        return np.minimum(numbers, np.iinfo(np.int64).max - 1) + 1
    following = np.nextafter(numbers, np.float32(np.inf))
    return np.where(np.abs(following) < _SMALLEST, np.where(numbers < 0, 0, _SMALLEST), following)


def _mean_and_scale(feature: Numeric, statistics: FeatureStatistics) -> tuple[float, float]:
    summary = statistics.numeric
    if summary is None:
        return 0.0, 1.0
    if summary.std == 0:  # float32 stores 1e30 as a number 1.5e22 above it
        return float(np.float32(summary.mean)) if feature.dtype == "float32" else summary.mean, 1.0
    return summary.mean, 1.0 / summary.std


def _precision(feature: Numeric, statistics: FeatureStatistics) -> tf.DType:
    """The type for differences; float32 takes half of the time."""
    # Rounding the mean loses as much as storing a number. In float32, the inverse of a larger spread is 0.
    std = statistics.numeric.std if statistics.numeric else 0.0
    is_enough = rounding(feature, statistics) <= COARSEST / 10 and std <= _WIDEST_FLOAT32
    return tf.float32 if feature.dtype == "float32" and is_enough else tf.float64


def _as_stored(boundaries: np.ndarray, feature: Numeric) -> np.ndarray:
    """The boundaries in the type of the stored numbers, [n]: rounded as the numbers were, or up to
    integers.
    """
    if feature.dtype == "float32":
        return boundaries.astype(np.float32)
    largest = np.iinfo(np.int64).max
    return np.array([min(math.ceil(boundary), largest) for boundary in boundaries], np.int64)


def require_distinct(feature: Feature, statistics: FeatureStatistics) -> None:
    """Raises InputError where the type in which numbers are stored cannot tell them apart."""
    lost, summary = rounding(feature, statistics), statistics.numeric
    if lost > most_lost(feature):
        raise InputError(
            f"{feature.kind} feature '{feature.name}'",
            received=f"a mean of {summary.mean:.9g} with a standard deviation of {summary.std:.3g}; "
            f"{feature.dtype} rounds such numbers by up to {lost:.2g} standard deviations",
            expected=f"at most {most_lost(feature):g} standard deviations",
            action=f"{way_out(feature, summary)}; then convert again.",
        )


# --- Numbers from the text of a request that its clean-up has made plain, as the conversion reads them.

_FLOAT = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_LARGEST = str((1 << 63) - 1)
# Whole numbers below the largest int64 that have as many digits: the first digits are the same, and the next
# one is smaller. Numbers with fewer digits, and the largest itself, are added in _INTEGER.
_SMALLER = (
    f"{_LARGEST[:at]}[0-{int(digit) - 1}][0-9]{{{len(_LARGEST) - at - 1}}}"
    for at, digit in enumerate(_LARGEST)
    if digit != "0"
)
_INTEGER = f"-?0*(?:[0-9]{{1,{len(_LARGEST) - 1}}}|{'|'.join(_SMALLER)}|{_LARGEST})|{-(1 << 63)}"


def numbers_of(feature: Numeric, texts: tf.Tensor) -> tf.Tensor:
    """Numbers [batch] as records hold them; a text that is not a number counts as missing, or as 0 for an
    int64.
    """
    numbers, are_numbers = _read(feature, texts)
    if feature.dtype == "float32":
        numbers = tf.where(are_numbers, numbers, np.nan)
    return filled(feature, numbers)


def are_numbers(feature: Numeric, texts: tf.Tensor) -> tf.Tensor:
    """Returns whether each text [batch] is a number that a record can hold: bool [batch]."""
    return _read(feature, texts)[1]


def _read(feature: Numeric, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Numbers [batch], and whether each text is one, bool [batch]; the number of any other is not one."""
    if feature.dtype == "int64":
        is_number = tf.strings.regex_full_match(texts, _INTEGER)
        return tf.strings.to_number(tf.where(is_number, texts, "0"), tf.int64), is_number
    is_number = tf.strings.regex_full_match(texts, _FLOAT)
    numbers = tf.strings.to_number(tf.where(is_number, texts, "0"), tf.float64)
    numbers = tf.cast(numbers - feature.offset, tf.float32)
    return numbers, is_number & tf.math.is_finite(numbers)


def without_nan(feature: Feature, numbers: tf.Tensor) -> tf.Tensor:
    """Returns `numbers` [batch, …] with the fill value, if there is one, in place of NaN."""
    if feature.fill is None or not numbers.dtype.is_floating:
        return numbers
    return tf.where(tf.math.is_nan(numbers), tf.constant(feature.fill, numbers.dtype), numbers)


def filled(feature: Feature, numbers: tf.Tensor) -> tf.Tensor:
    """Returns `numbers` [batch, …] with the fill value, if there is one, in place of NaN and of markers of
    "no value".
    """
    if feature.fill is None:
        return numbers
    numbers = without_nan(feature, numbers)
    if not feature.clean.sentinels:
        return numbers
    dtype = numbers.dtype if numbers.dtype.is_floating else tf.float64  # rounds them as records do
    offset = feature.offset if isinstance(feature, Numeric) else 0.0
    sentinels = tf.constant(np.array(feature.clean.sentinels) - offset, dtype)
    missing = tf.reduce_any(tf.cast(numbers, dtype)[:, None] == sentinels, axis=1)
    return tf.where(missing, tf.constant(feature.fill, numbers.dtype), numbers)


def texts_of(feature: Numeric, numbers: np.ndarray) -> list[str]:
    """Texts that a request may hold for these numbers [batch]; empty for NaN."""
    if feature.dtype == "int64":
        return [str(number) for number in numbers.tolist()]
    # The shortest text that is read as this float32; with an offset, all digits of the float64 are needed.
    raw = numbers.astype(np.float64) + feature.offset if feature.offset else numbers
    texts = [np.format_float_positional(number, trim="-") for number in raw]
    return ["" if text == "nan" else text.replace(".", feature.clean.decimal) for text in texts]
