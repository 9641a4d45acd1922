"""Ids of categorical values, by vocabulary, hash or range; 0 stands for unknown values, and for missing ones
that are hashed.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import keras
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset import blocks
from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.data.preprocessing.numbers import zero_where
from pipeline.data.schema.feature_types import Categorical, Categories

Transform = Callable[[tf.Tensor], tf.Tensor]


def category_ids(feature: Categorical, statistics: FeatureStatistics) -> tuple[Transform, int]:
    """Returns a function from values [batch] (string or integer) to ids [batch], and the number of ids.

    Ids are int32 or int64. With a listed vocabulary it also maps the indices in blocks, int32 [batch], to the
    same ids. Raises InputError if the vocabulary is not listed and has too many values to be learned.
    """
    if feature.encoding == "hashed":
        ids = feature.buckets + 1
        return keras.layers.Hashing(num_bins=ids, mask_value=str(feature.fill or "")), ids
    if feature.encoding == "integer":
        return functools.partial(known_ids, size=feature.size), feature.size + 1
    vocabulary = list(feature.vocabulary) or _learned_vocabulary(feature, statistics)
    if feature.missing == "mark":
        vocabulary = [str(feature.fill), *(value for value in vocabulary if value != feature.fill)]
    if not vocabulary:  # the column has no values at all, but Keras wants one
        return lambda values: tf.zeros_like(values, tf.int32), 1
    lookup = _lookup(vocabulary)
    ids = _ListedIds(lookup, feature) if feature.vocabulary else lookup
    return ids, len(vocabulary) + 1


class ListIds(tf.Module):
    """Ids of lists: values, string [batch, length], or indices in blocks, int32 → int32 [batch, length].

    0 is no value, 1 one that is unknown; `size` is the number of ids. A module, so that an export finds the
    lookup.
    """

    def __init__(self, feature: Categories, statistics: FeatureStatistics) -> None:
        super().__init__()
        # Their ids begin with 0 for what is unknown.
        self._ids, ids = category_ids(dataclasses.replace(feature, missing="reject"), statistics)
        self.size = ids + 1

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        is_none = values == ("" if values.dtype == tf.string else blocks.MISSING)
        return zero_where(is_none, 1 + tf.cast(self._ids(values), tf.int32))


def known_ids(values: tf.Tensor, *, size: int) -> tf.Tensor:
    """Integers, int32 or int64 of any shape → the integer plus 1 if it is in [0, size), else 0."""
    # As unsigned numbers, negative ones are large.
    unsigned = tf.bitcast(values, tf.uint32 if values.dtype == tf.int32 else tf.uint64)
    return zero_where(unsigned >= tf.cast(size, unsigned.dtype), values + 1)


def _lookup(vocabulary: list[str]) -> keras.layers.StringLookup:
    # The name for unknown values must differ from all values: Keras would drop a value that equals it.
    names = ("[UNK]" + "]" * more for more in itertools.count())
    unknown = next(name for name in names if name not in vocabulary)
    return keras.layers.StringLookup(
        vocabulary=vocabulary, num_oov_indices=1, mask_token=None, oov_token=unknown
    )


class _ListedIds(tf.Module):
    """Ids of values, or of indices into a listed vocabulary. It is a tf.Module, so that an export finds the
    lookup.
    """

    def __init__(self, lookup: keras.layers.StringLookup, feature: Categorical) -> None:
        super().__init__()
        self._lookup = lookup
        self._id_of_index = lookup(tf.constant(blocks.values_by_index(feature, feature.vocabulary))).numpy()

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        if values.dtype == tf.string:
            return self._lookup(values)
        return tf.gather(self._id_of_index, values - blocks.MISSING)


def _learned_vocabulary(feature: Categorical, statistics: FeatureStatistics) -> list[str]:
    counts = statistics.values
    if counts is None or not counts.complete:
        raise InputError(
            f"categorical feature '{feature.name}'",
            received=f"at least {counts.distinct if counts else 0:,} different values",
            expected="few enough to be counted, or a vocabulary listed in the schema",
            action='List the vocabulary in the schema, or set "encoding": "hashed" and "buckets" there; then '
            "convert again.",
        )
    learned = [value for value, _ in counts.values[: feature.max_vocabulary]]
    # The default is known even if no value equals it: statistics do not count missing values as their
    # default.
    defaults = [str(feature.default)] if feature.missing == "default" else []
    return [*learned, *(value for value in defaults if value not in learned)]
