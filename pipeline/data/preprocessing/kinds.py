"""What the features of each kind give to a model: columns of numbers, ids, sequences of ids, an image."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.dataset.statistics import FeatureStatistics, SplitStatistics
from pipeline.data.errors import InputError
from pipeline.data.preprocessing import datetimes, number_text
from pipeline.data.preprocessing.categories import category_ids
from pipeline.data.preprocessing.datetime_text import moments_of, texts_of
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kind_table import KindTable
from pipeline.data.schema.kinds import Categorical, Image, Label, Numeric, Tensor, Text, Tokens

Transform = Callable[[tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumericInput:
    """`transform`: a feature [batch, …] → float32 [batch, width]."""

    feature: str
    transform: Transform
    width: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class CategoryInput:
    """`transform`: a feature [batch] → ids [batch], int32 or int64, each below `cardinality`."""

    feature: str
    transform: Transform
    cardinality: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceInput:
    """`transform`: a feature [batch, …] → ids, int32 [batch, length], each below `size`; 0 is padding."""

    feature: str
    transform: Transform
    length: int
    size: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs:
    """What all features of one kind give to a model together, in the order in which the model gets it."""

    numeric: tuple[NumericInput, ...] = ()
    categories: tuple[CategoryInput, ...] = ()
    sequences: tuple[SequenceInput, ...] = ()
    image: Image | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class InModel:
    """How a model is fed with one kind.

    `is_text` says that requests may spell a string in several ways. `read`: cleaned text of a request, string
    [batch] → what a record holds of it, [batch]; without it, that is the text. `spelled` is its inverse.
    """

    inputs: Callable[[Sequence[Feature], SplitStatistics], Inputs]
    is_text: bool = True
    read: Callable[[Feature, tf.Tensor], tf.Tensor] | None = None
    spelled: Callable[[Feature, np.ndarray], list[str]] | None = None


def inputs_by_kind(features: Sequence[Feature], statistics: SplitStatistics) -> list[Inputs]:
    """What `features` give, kind by kind in the order of the table."""
    for feature in features:
        OF_KIND.of(feature)  # raises where a kind has no entry
    return [
        entry.inputs([feature for feature in features if type(feature) is kind], statistics)
        for kind, entry in OF_KIND.entries.items()
    ]


def _categorical(features: Sequence[Categorical], statistics: SplitStatistics) -> Inputs:
    ids = []
    for feature in features:
        transform, cardinality = category_ids(feature, statistics.features[feature.name])
        ids.append(CategoryInput(feature=feature.name, transform=transform, cardinality=cardinality))
    return Inputs(categories=tuple(ids))


def _numeric(features: Sequence[Numeric], statistics: SplitStatistics) -> Inputs:
    """Standardized numbers, then one mark a feature for what is missing; and the quantile bins as ids."""
    numbers = [
        NumericInput(feature=feature.name, transform=_standardize(statistics.features[feature.name]))
        for feature in features
    ]
    marks = [
        NumericInput(feature=feature.name, transform=_missing)
        for feature in features
        if feature.missing == "mark"
    ]
    bins = [_bucket_ids(statistics.features[feature.name]) for feature in features]
    return Inputs(numeric=(*numbers, *marks), categories=tuple(bins))


def _tensor(features: Sequence[Tensor], statistics: SplitStatistics) -> Inputs:
    del statistics
    flat = [
        NumericInput(feature=feature.name, transform=_flat, width=math.prod(feature.shape))
        for feature in features
    ]
    return Inputs(numeric=tuple(flat))


def _text(features: Sequence[Text], statistics: SplitStatistics) -> Inputs:
    del statistics
    return Inputs(
        sequences=tuple(
            SequenceInput(
                feature=feature.name,
                transform=_word_ids(feature),
                length=feature.length,
                size=feature.buckets + 1,
            )
            for feature in features
        )
    )


def _tokens(features: Sequence[Tokens], statistics: SplitStatistics) -> Inputs:
    del statistics
    return Inputs(
        sequences=tuple(
            SequenceInput(
                feature=feature.name,
                transform=_token_ids,
                length=feature.length,
                size=feature.vocabulary_size + 1,
            )
            for feature in features
        )
    )


def _datetime(features: Sequence[Datetime], statistics: SplitStatistics) -> Inputs:
    """The columns of each time, then one mark a feature for what is missing."""
    times = [
        NumericInput(
            feature=feature.name,
            transform=datetimes.time_columns(feature, statistics.features[feature.name]),
            width=datetimes.WIDTH,
        )
        for feature in features
    ]
    marks = [
        NumericInput(feature=feature.name, transform=datetimes.missing_time)
        for feature in features
        if feature.missing == "mark"
    ]
    return Inputs(numeric=(*times, *marks))


def _image(features: Sequence[Image], statistics: SplitStatistics) -> Inputs:
    del statistics
    if len(features) > 1:
        raise InputError(
            "image features of the schema",
            received=", ".join(f"'{feature.name}'" for feature in features),
            expected="at most one",
            action="Leave the others out of the schema that you train with.",
        )
    return Inputs(image=features[0] if features else None)


def _label(features: Sequence[Label], statistics: SplitStatistics) -> Inputs:
    """Nothing: the label is what the model predicts."""
    del features, statistics
    return Inputs()


def _standardize(statistics: FeatureStatistics) -> Transform:
    """Numbers [batch] → float32 [batch, 1] of zero mean and unit variance, NaN to the mean."""
    summary = statistics.numeric
    variance = summary.std**2 if summary and summary.std > 0 else 1.0
    mean = summary.mean if summary else 0.0
    layer = keras.layers.Normalization(axis=None, mean=mean, variance=variance, dtype="float32")
    layer.build((None,))  # here, or its constants would belong to the first graph that traces it

    def standardize(values: tf.Tensor) -> tf.Tensor:
        standardized = layer(tf.cast(values, tf.float32))
        return tf.where(tf.math.is_nan(standardized), 0.0, standardized)[:, None]

    return standardize


def _missing(values: tf.Tensor) -> tf.Tensor:
    """Numbers [batch] → float32 [batch, 1]: 1 where the number is missing."""
    return tf.cast(tf.math.is_nan(values), tf.float32)[:, None]


def _flat(values: tf.Tensor) -> tf.Tensor:
    """Numbers [batch, *shape] → float32 [batch, product of the shape]."""
    return keras.layers.Flatten(dtype="float32")(tf.cast(values, tf.float32))


def _bucket_ids(statistics: FeatureStatistics) -> CategoryInput:
    """Quantile bins, numbered from 1, so that 0 can stand for a missing value."""
    quantiles = statistics.numeric.quantiles if statistics.numeric else ()
    boundaries = sorted(set(quantiles[1:-1]))
    layer = keras.layers.Discretization(bin_boundaries=boundaries or [0.0], dtype="int32")

    def bucket(values: tf.Tensor) -> tf.Tensor:
        numbers = tf.cast(values, tf.float32)
        missing = tf.math.is_nan(numbers)
        return tf.where(missing, 0, 1 + tf.cast(layer(tf.where(missing, 0.0, numbers)), tf.int32))

    cardinality = len(layer.bin_boundaries) + 2
    return CategoryInput(feature=statistics.name, transform=bucket, cardinality=cardinality)


def _word_ids(feature: Text) -> Transform:
    """Text [batch] → the first `length` words as 1 + hash, int32 [batch, length], padded with 0."""
    hashing = keras.layers.Hashing(num_bins=feature.buckets)

    def ids(text: tf.Tensor) -> tf.Tensor:
        words = tf.strings.split(text)
        hashed = words.with_flat_values(1 + tf.cast(hashing(words.flat_values), tf.int32))
        return hashed[:, : feature.length].to_tensor(shape=[None, feature.length])

    return ids


def _token_ids(tokens: tf.Tensor) -> tf.Tensor:
    """Token ids [batch, length] → int32 [batch, length], from 1, so that 0 can stand for padding."""
    return 1 + tf.cast(tokens, tf.int32)


# A model gets the inputs in this order: moving an entry changes what a trained model's columns mean.
OF_KIND = KindTable(
    where=__name__,
    tells="what a model gets of a feature",
    entry="InModel, with `inputs` of (the features of the kind, SplitStatistics) to Inputs",
    entries={
        Categorical: InModel(inputs=_categorical),
        Numeric: InModel(inputs=_numeric, read=number_text.numbers_of, spelled=number_text.texts_of),
        Tensor: InModel(inputs=_tensor),
        Text: InModel(inputs=_text),
        Tokens: InModel(inputs=_tokens),
        Image: InModel(inputs=_image, is_text=False),
        Label: InModel(inputs=_label),
        Datetime: InModel(inputs=_datetime, read=moments_of, spelled=texts_of),
    },
)
