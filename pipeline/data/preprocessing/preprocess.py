"""Raw feature tensors → model inputs, by Keras layers built from the dataset's statistics.

Runs on the host, in the input pipeline and inside the exported signatures alike, so training and serving
cannot differ. It holds nothing that training changes and is never checkpointed: a lookup or normalization
layer that is restored silently loses its state (measured); a rebuilt one cannot.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.images.decoding import decode_images
from pipeline.data.images.pixels import RESCALING, require_image_dtype, rescaling_left
from pipeline.data.preprocessing import datetimes, numbers
from pipeline.data.preprocessing.categories import ListIds, category_ids, known_ids
from pipeline.data.preprocessing.datetimes import are_moments, moments_of, texts_of
from pipeline.data.preprocessing.words import different_ids, parts_of, text_ids
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import (
    Categorical,
    Categories,
    Datetime,
    FeatureTypeTable,
    Image,
    Label,
    Numeric,
    Tensor,
    Text,
    Tokens,
)
from pipeline.data.schema.schema import Schema

# --- The inputs that features of each type give to a model: numbers, ids, sequences of ids, an image.

Transform = Callable[..., tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumericInput:
    """`transform`: the features, each [batch, …] → float32 [batch, width], NaN and infinities as they are.

    `boundaries` are quantiles of each column of `transform`, ascending; none: they are not known.
    """

    features: tuple[str, ...]
    transform: Transform
    width: int
    boundaries: tuple[tuple[float, ...], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class CategoryInput:
    """`transform`: the features, each [batch] → ids, int32 or int64, each below its column's cardinality.

    The ids are [batch, len(cardinalities)]; with one feature they may be [batch]. `are_bins` says which of
    them are bins of a number that a model has as a number, too, which says as much of it.
    """

    features: tuple[str, ...]
    transform: Transform
    cardinalities: tuple[int, ...]
    are_bins: tuple[bool, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceInput:
    """`transform`: a feature [batch, …] → ids, int32 [batch, length], each below `size`; 0 is padding.

    `parts`: how many columns each kind of ids has, if there are several kinds side by side; else empty.
    """

    feature: str
    transform: Transform
    length: int
    size: int
    parts: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs:
    """The inputs that all features of one type give together, in the order in which a model gets them."""

    numeric: tuple[NumericInput, ...] = ()
    categories: tuple[CategoryInput, ...] = ()
    sequences: tuple[SequenceInput, ...] = ()
    image: Image | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class InModel:
    """How features of one type become inputs of a model.

    `is_text` says that requests may spell a string in several ways. `read` turns cleaned text of a request,
    string [batch], into what a record holds, [batch]; None: a record holds the text. `spelled` is its
    inverse. `are_read` says which texts it can read, bool [batch].
    """

    inputs: Callable[[Sequence[Feature], SplitStatistics], Inputs]
    is_text: bool = True
    read: Callable[[Feature, tf.Tensor], tf.Tensor] | None = None
    spelled: Callable[[Feature, np.ndarray], list[str]] | None = None
    are_read: Callable[[Feature, tf.Tensor], tf.Tensor] | None = None


def inputs_by_type(features: Sequence[Feature], statistics: SplitStatistics) -> list[Inputs]:
    """The inputs that `features` give, type by type in the order of the table."""
    for feature in features:
        BY_TYPE.of(feature)  # raises where a type has no entry
    return [
        entry.inputs([feature for feature in features if type(feature) is kind], statistics)
        for kind, entry in BY_TYPE.entries.items()
    ]


def _categorical(features: Sequence[Categorical], statistics: SplitStatistics) -> Inputs:
    ids = []
    for feature in features:
        transform, cardinality = category_ids(feature, statistics.features[feature.name])
        ids.append(CategoryInput(features=(feature.name,), transform=transform, cardinalities=(cardinality,)))
    return Inputs(categories=tuple(ids))


def _numeric(features: Sequence[Numeric], statistics: SplitStatistics) -> Inputs:
    """Standardized numbers, then for each feature that may be missing a column that says where it is; and the
    quantile bins as ids.
    """
    if not features:
        return Inputs()
    names = tuple(feature.name for feature in features)
    marked = tuple(feature.name for feature in features if feature.missing == "mark")
    distances = numbers.standardized(features, statistics.features)
    bins, cardinalities = numbers.bin_ids(features, statistics.features)
    marks = NumericInput(features=marked, transform=numbers.missing, width=len(marked))
    return Inputs(
        numeric=(
            NumericInput(
                features=names,
                transform=distances,
                width=len(names),
                boundaries=numbers.standardized_quantiles(features, statistics.features),
            ),
            *([marks] if marked else []),
        ),
        categories=(
            CategoryInput(
                features=names,
                transform=bins,
                cardinalities=cardinalities,
                are_bins=tuple(not numbers.has_main_value(statistics.features[name]) for name in names),
            ),
        ),
    )


def _tensor(features: Sequence[Tensor], statistics: SplitStatistics) -> Inputs:
    flat = [
        NumericInput(features=(feature.name,), transform=numbers.flat, width=math.prod(feature.shape))
        for feature in features
    ]
    return Inputs(numeric=tuple(flat))


def _text(features: Sequence[Text], statistics: SplitStatistics) -> Inputs:
    sequences = (
        _sequence(each, text_ids(each), different_ids(each), parts=parts_of(each)) for each in features
    )
    return Inputs(sequences=tuple(sequences))


def _tokens(features: Sequence[Tokens], statistics: SplitStatistics) -> Inputs:
    sequences = (_sequence(each, _token_ids(each), each.vocabulary_size) for each in features)
    return Inputs(sequences=tuple(sequences))


def _categories(features: Sequence[Categories], statistics: SplitStatistics) -> Inputs:
    ids = [(each, ListIds(each, statistics.features[each.name])) for each in features]
    return Inputs(sequences=tuple(_sequence(each, listed, listed.size - 1) for each, listed in ids))


def _sequence(
    feature: Text | Tokens | Categories, ids: Transform, values: int, *, parts: tuple[int, ...] = ()
) -> SequenceInput:
    """The ids of a feature, of `values` different values beside padding; as many as it says without parts."""
    return SequenceInput(
        feature=feature.name,
        transform=ids,
        length=sum(parts) or feature.length,
        size=values + 1,
        parts=parts if len(parts) > 1 else (),
    )


def _datetime(features: Sequence[Datetime], statistics: SplitStatistics) -> Inputs:
    """The columns of each time, then for each feature that may be missing a column that says where it is."""
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
    if len(features) > 1:
        raise InputError(
            "image features of the schema",
            received=", ".join(f"'{feature.name}'" for feature in features),
            expected="at most one",
            action="Leave the others out of the schema that you train with.",
        )
    return Inputs(image=features[0] if features else None)


def _token_ids(feature: Tokens) -> Transform:
    """Token ids, int32 or int64 [batch, length] → int32, from 1; ids that the vocabulary lacks become
    padding, 0.
    """
    return lambda tokens: tf.cast(known_ids(tokens, size=feature.vocabulary_size), tf.int32)


# A model gets the inputs in this order: moving an entry changes what a trained model's columns mean.
BY_TYPE = FeatureTypeTable(
    where=__name__,
    question="what a model gets of a feature",
    entry="InModel, with `inputs` of (the features of the type, SplitStatistics) to Inputs",
    entries={
        Categorical: InModel(inputs=_categorical),
        Numeric: InModel(
            inputs=_numeric,
            read=numbers.numbers_of,
            spelled=numbers.texts_of,
            are_read=numbers.are_numbers,
        ),
        Tensor: InModel(inputs=_tensor),
        Text: InModel(inputs=_text),
        Tokens: InModel(inputs=_tokens),
        Image: InModel(inputs=_image, is_text=False),
        Label: InModel(inputs=lambda features, statistics: Inputs()),  # the model predicts it
        Datetime: InModel(inputs=_datetime, read=moments_of, spelled=texts_of, are_read=are_moments),
        Categories: InModel(inputs=_categories),
    },
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """The tensors that a model takes: all that is needed to build one.

    `image`: [batch, height, width, channels] of `image_dtype`; `numeric`: finite float32 [batch, numeric];
    `categories`: int32 [batch, len(cardinalities)], each column below its cardinality; and each sequence
    under its own name: int32 [batch, length], each id below the sequence's size, 0 = padding. `of_items` are
    the sequences whose ids are the label's classes: 1 is another value, 2 the first class. `columns` says
    which columns of `numeric` and `categories` belong to which feature. `boundaries` has the quantiles of
    each column of `numeric`, ascending, and none where they are not known; `bin_columns` are those of
    `categories` that are bins of numbers; but where one value has most rows, its bins say more than the
    number, and are not among them. `parts` has the sequences in which ids of several kinds stand side
    by side: how many columns each kind has, in their order.
    """

    image_shape: tuple[int, int, int] | None  # height, width, channels
    numeric: int
    cardinalities: tuple[int, ...]
    sequences: Mapping[str, tuple[int, int]]  # length and size by name
    image_dtype: str = "uint8"
    image_rescaling: tuple[float, float] | None = RESCALING  # scale and offset that are left to the model
    of_items: tuple[str, ...] = ()
    columns: Mapping[str, Mapping[str, tuple[int, ...]]] = dataclasses.field(default_factory=dict)
    boundaries: tuple[tuple[float, ...], ...] = ()
    bin_columns: tuple[int, ...] = ()
    parts: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)


class Preprocess(tf.Module):
    """Callable on a batch of raw features, as parsed from records or received by a signature.

    Where a record is a group of rows, it takes groups as well as rows.

    Args:
      statistics: statistics of the split on which the model trains.
      image_size: (height, width) that images are resized to; needed where the schema's sizes vary.
      image_dtype: dtype of the images that models take; see pixels.py.
    """

    def __init__(
        self,
        schema: Schema,
        statistics: SplitStatistics,
        *,
        image_size: tuple[int, int] | None = None,
        image_dtype: str = "uint8",
    ) -> None:
        super().__init__(name="preprocess")
        check_measured(schema)
        self._group_length = schema.group.length if schema.group else 0
        schema = schema.of_rows
        kinds = inputs_by_type(schema.features, statistics)
        numeric = [part for inputs in kinds for part in inputs.numeric]
        categories = [part for inputs in kinds for part in inputs.categories]
        sequences = [part for inputs in kinds for part in inputs.sequences]
        # These are lists of pairs, not of dataclasses: in dataclasses TensorFlow would not find the tables
        # that it exports.
        self._numeric = [(part.features, part.transform) for part in numeric]
        self._categories = [(part.features, part.transform) for part in categories]
        self._sequences = {part.feature: part.transform for part in sequences}
        self._columns_of = {
            "numeric": [name for part in numeric for name in _names(part.features, part.width)],
            "categories": [
                name for part in categories for name in _names(part.features, len(part.cardinalities))
            ],
        }
        are_bins = [
            each for part in categories for each in part.are_bins or [False] * len(part.cardinalities)
        ]
        self.image = next((inputs.image for inputs in kinds if inputs.image), None)
        self._image_shape = self.image and _image_shape(self.image, image_size)
        self.inputs = ModelInputs(
            image_shape=self._image_shape,
            numeric=sum(part.width for part in numeric),
            cardinalities=tuple(itertools.chain(*(part.cardinalities for part in categories))),
            sequences={part.feature: (part.length, part.size) for part in sequences},
            image_dtype=require_image_dtype(image_dtype),
            image_rescaling=rescaling_left(image_dtype),
            of_items=_lists_of_classes(schema),
            columns={name: _places(features) for name, features in self._columns_of.items()},
            boundaries=tuple(each for part in numeric for each in part.boundaries or ((),) * part.width),
            bin_columns=tuple(np.flatnonzero(are_bins).tolist()),
            parts={part.feature: part.parts for part in sequences if part.parts},
        )

    @property
    def columns(self) -> dict[str, list[str]]:
        """The names of the features behind the columns of `numeric` and of `categories`."""
        return {name: list(features) for name, features in self._columns_of.items()}

    def __call__(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Raw features, each [batch, …] → the tensors that `inputs` describes.

        Features of groups are [batch, length] each, and give tensors [batch, length, …].
        """
        if not self._group_length or next(iter(features.values())).shape.rank == 1:
            return self._of_rows(features)
        rows = self._of_rows(merged_groups(features))
        length = self._group_length
        return {name: tf.reshape(each, [-1, length, *each.shape[1:]]) for name, each in rows.items()}

    def _of_rows(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        outputs = {name: transform(features[name]) for name, transform in self._sequences.items()}
        if self.image:
            outputs["image"] = self._pixels(features[self.image.name])
        if self._numeric:
            columns = _transformed(self._numeric, features)
            outputs["numeric"] = numbers.bounded(tf.concat(columns, axis=1))  # (batch, numeric)
        if self._categories:
            ids = [tf.cast(each, tf.int32) for each in _transformed(self._categories, features)]
            together = [each[:, None] if each.shape.rank == 1 else each for each in ids]
            outputs["categories"] = tf.concat(together, axis=1)  # (batch, columns)
        return outputs

    def _pixels(self, images: tf.Tensor) -> tf.Tensor:
        """Images as models take them, from files, string [batch], or from pixels that training made."""
        if images.dtype != tf.string:
            return tf.ensure_shape(images, [None, *self._image_shape])
        return decode_images(
            images,
            self._image_shape,
            max_pixels=self.image.max_pixels,
            image_dtype=self.inputs.image_dtype,
        )


def merged_groups(groups: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Tensors of groups, each [batch, length, …] → those of their rows, each [batch * length, …]."""
    return {name: tf.reshape(each, [-1, *each.shape[2:]]) for name, each in groups.items()}


def _names(features: Sequence[str], width: int) -> list[str]:
    """The feature name of each column: one feature has all columns, or each feature has one."""
    return list(features) * width if len(features) == 1 else list(features)


def _places(features: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The columns of each feature; `features` names the feature of each column."""
    return {
        name: tuple(place for place, each in enumerate(features) if each == name)
        for name in dict.fromkeys(features)
    }


def _transformed(
    parts: Sequence[tuple[tuple[str, ...], Transform]], features: Mapping[str, tf.Tensor]
) -> list[tf.Tensor]:
    return [transform(*(features[name] for name in names)) for names, transform in parts]


def _image_shape(image: Image, image_size: tuple[int, int] | None) -> tuple[int, int, int]:
    height, width = image_size or (image.height, image.width)
    if not (height and width):
        raise InputError(
            f"image feature '{image.name}'",
            received="no fixed size (the images differ in size)",
            expected="a height and width to resize to",
            action="Set --config.image_size=224,224 or any other size.",
        )
    return (height, width, image.channels)


def check_measured(schema: Schema) -> None:
    """Raises InputError for the first input that needs statistics but declares `statistics: none`."""
    for feature in schema.inputs:
        if feature.statistics == "none" and _is_learned(feature):
            raise InputError(
                f"feature '{feature.name}' as a model's input",
                received='"statistics": "none"',
                expected="its statistics, from which standardising or a vocabulary is learned",
                action="Remove the field and convert again, or move the column to 'ignore'.",
            )


def _is_learned(feature: Feature) -> bool:
    if isinstance(feature, Categorical):
        return feature.encoding == "vocabulary" and not feature.vocabulary
    return isinstance(feature, Numeric | Datetime)


def _lists_of_classes(schema: Schema) -> tuple[str, ...]:
    """The lists that have the vocabulary of the label."""
    classes = schema.label.classes if schema.of_type(Label) else ()
    return tuple(each.name for each in schema.of_type(Categories) if classes and each.vocabulary == classes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelScale:
    """Mean and standard deviation of the training labels, in the label's unit; one each for several labels.

    This scale says whether a difference of numbers is large or small. The logits of a classification have no
    unit: for them 1 is large, whatever the labels are.
    """

    mean: float | tuple[float, ...] = 0.0
    spread: float | tuple[float, ...] = 1.0  # above 0


def label_scale(label: Label, statistics: SplitStatistics) -> LabelScale:
    """The scale of a label; `statistics` are those of the train split.

    Raises:
      InputError: float32 cannot tell the labels apart.
    """
    if label.dtype != "float32":
        return LabelScale()
    scales = [_scale_of(name, label, statistics) for name in label.parts]
    if len(scales) == 1:
        return scales[0]
    return LabelScale(mean=tuple(each.mean for each in scales), spread=tuple(each.spread for each in scales))


def _scale_of(name: str, label: Label, statistics: SplitStatistics) -> LabelScale:
    """The scale of a label's part."""
    measured = statistics.features[name].numeric if name in statistics.features else None
    if measured is None:
        return LabelScale()
    numbers.require_distinct(Label(name=name, task="regression"), statistics.features[name])
    # Equal labels have no deviation: their distance from 0 takes its place.
    return LabelScale(mean=measured.mean, spread=measured.std or abs(measured.mean) or 1.0)
