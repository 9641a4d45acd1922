"""What the features of each kind give to a model: columns of numbers, ids, sequences of ids, an image."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.errors import InputError
from pipeline.data.preprocessing import datetimes, number_text, numbers
from pipeline.data.preprocessing.categories import category_ids, known_ids
from pipeline.data.preprocessing.datetime_text import moments_of, texts_of
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kind_table import KindTable
from pipeline.data.schema.kinds import Categorical, Image, Label, Numeric, Tensor, Text, Tokens

Transform = Callable[..., tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumericInput:
    """`transform`: the features, each [batch, …] → float32 [batch, width], NaN and infinities as they are."""

    features: tuple[str, ...]
    transform: Transform
    width: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class CategoryInput:
    """`transform`: the features, each [batch] → ids, int32 or int64, each below its column's cardinality.

    They are [batch, len(cardinalities)]; those of one feature may be [batch].
    """

    features: tuple[str, ...]
    transform: Transform
    cardinalities: tuple[int, ...]


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
        ids.append(CategoryInput(features=(feature.name,), transform=transform, cardinalities=(cardinality,)))
    return Inputs(categories=tuple(ids))


def _numeric(features: Sequence[Numeric], statistics: SplitStatistics) -> Inputs:
    """Standardized numbers, then one mark a feature for what is missing; and the quantile bins as ids."""
    if not features:
        return Inputs()
    names = tuple(feature.name for feature in features)
    marked = tuple(feature.name for feature in features if feature.missing == "mark")
    distances = numbers.standardized(features, statistics.features)
    bins, cardinalities = numbers.bin_ids(features, statistics.features)
    marks = NumericInput(features=marked, transform=numbers.missing, width=len(marked))
    return Inputs(
        numeric=(
            NumericInput(features=names, transform=distances, width=len(names)),
            *([marks] if marked else []),
        ),
        categories=(CategoryInput(features=names, transform=bins, cardinalities=cardinalities),),
    )


def _tensor(features: Sequence[Tensor], statistics: SplitStatistics) -> Inputs:
    del statistics
    flat = [
        NumericInput(features=(feature.name,), transform=numbers.flat, width=math.prod(feature.shape))
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
                transform=_token_ids(feature),
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
            features=(feature.name,),
            transform=datetimes.time_columns(feature, statistics.features[feature.name]),
            width=datetimes.WIDTH,
        )
        for feature in features
    ]
    marks = [
        NumericInput(features=(feature.name,), transform=datetimes.missing_time, width=1)
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


def _word_ids(feature: Text) -> Transform:
    """Text [batch] → the first `length` words as 1 + hash, int32 [batch, length], padded with 0."""
    hashing = keras.layers.Hashing(num_bins=feature.buckets)

    def ids(text: tf.Tensor) -> tf.Tensor:
        words = tf.strings.split(text)
        hashed = words.with_flat_values(1 + tf.cast(hashing(words.flat_values), tf.int32))
        return hashed[:, : feature.length].to_tensor(shape=[None, feature.length])

    return ids


def _token_ids(feature: Tokens) -> Transform:
    """Token ids, int32 or int64 [batch, length] → int32, from 1; what the vocabulary lacks is padding, 0."""
    return lambda tokens: tf.cast(known_ids(tokens, size=feature.vocabulary_size), tf.int32)


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
