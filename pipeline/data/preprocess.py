"""Raw feature tensors → model inputs, by Keras layers built from the dataset's statistics.

Runs on the host, in the input pipeline and inside the exported signatures alike, so training and serving
cannot differ. It holds nothing that training changes and is never checkpointed: a restored lookup or
normalization layer silently loses its state (measured), a rebuilt one cannot.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from pipeline.data.categories import category_ids
from pipeline.data.errors import InputError
from pipeline.data.features import Categorical, Image, Numeric, Tensor, Text, Tokens
from pipeline.data.images import decode_images
from pipeline.data.pixels import RESCALING, require_image_dtype, rescaling_left
from pipeline.data.schema import Schema
from pipeline.data.statistics import FeatureStatistics, SplitStatistics

Transform = Callable[[tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """Sizes of what a model is fed, and so all that building one takes."""

    image_shape: tuple[int, int, int] | None  # `image`: [batch, height, width, channels]
    numeric: int  # `numeric`: float32 [batch, numeric]
    cardinalities: tuple[
        int, ...
    ]  # `categories`: int32 [batch, len(cardinalities)], each below its cardinality
    sequences: Mapping[str, tuple[int, int]]  # by name: int32 [batch, length], each below size, 0 = padding
    image_dtype: str = "uint8"
    image_rescaling: tuple[float, float] | None = RESCALING  # scale and offset that are left to the model


class Preprocess(tf.Module):
    """Callable on a batch of raw features, as parsed from records or received by a signature.

    Args:
      statistics: of the split the model trains on.
      image_size: (height, width) that images are resized to; needed where the schema's sizes vary.
      image_dtype: of the images that models are fed; see pixels.py.
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
        numerics, categoricals = schema.of_kind(Numeric), schema.of_kind(Categorical)
        self._numerics = [(f.name, _standardize(statistics.features[f.name])) for f in numerics]
        self._marked = [f.name for f in numerics if f.missing == "mark"]
        self._tensors = [f.name for f in schema.of_kind(Tensor)]
        ids = [(f.name, *category_ids(f, statistics.features[f.name])) for f in categoricals]
        ids += [(f.name, *_bucket_ids(statistics.features[f.name])) for f in numerics]
        self._ids = [(name, transform) for name, transform, _ in ids]
        self._sequences = {f.name: _word_ids(f) for f in schema.of_kind(Text)}
        self._sequences |= {f.name: _token_ids for f in schema.of_kind(Tokens)}
        self.image = _only_image(schema)
        self._image_shape = self.image and _image_shape(self.image, image_size)
        self.inputs = ModelInputs(
            image_shape=self._image_shape,
            numeric=len(numerics)
            + len(self._marked)
            + sum(math.prod(f.shape) for f in schema.of_kind(Tensor)),
            cardinalities=tuple(cardinality for _, _, cardinality in ids),
            sequences={f.name: (f.length, f.buckets + 1) for f in schema.of_kind(Text)}
            | {f.name: (f.length, f.vocabulary_size + 1) for f in schema.of_kind(Tokens)},
            image_dtype=require_image_dtype(image_dtype),
            image_rescaling=rescaling_left(image_dtype),
        )

    def __call__(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Raw features, each [batch, …] → the tensors that `inputs` describes."""
        outputs = {name: transform(features[name]) for name, transform in self._sequences.items()}
        if self.image:
            outputs["image"] = self._pixels(features[self.image.name])
        if self.inputs.numeric:
            outputs["numeric"] = self._numeric(features)
        if self._ids:
            ids = [tf.cast(transform(features[name]), tf.int32) for name, transform in self._ids]
            outputs["categories"] = tf.stack(ids, axis=1)  # (batch, columns)
        return outputs

    def _pixels(self, images: tf.Tensor) -> tf.Tensor:
        """Images as models take them, of files, string [batch], or of what training made of them."""
        if images.dtype != tf.string:
            return tf.ensure_shape(images, [None, *self._image_shape])
        return decode_images(
            images,
            self._image_shape,
            max_pixels=self.image.max_pixels,
            image_dtype=self.inputs.image_dtype,
        )

    def _numeric(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        columns = [transform(features[name])[:, None] for name, transform in self._numerics]
        columns += [tf.cast(tf.math.is_nan(features[name]), tf.float32)[:, None] for name in self._marked]
        flatten = keras.layers.Flatten(dtype="float32")
        columns += [flatten(tf.cast(features[name], tf.float32)) for name in self._tensors]
        return tf.concat(columns, axis=1)  # (batch, numeric)


def _standardize(statistics: FeatureStatistics) -> Transform:
    """Zero mean, unit variance, NaN to the mean."""
    summary = statistics.numeric
    variance = summary.std**2 if summary and summary.std > 0 else 1.0
    mean = summary.mean if summary else 0.0
    layer = keras.layers.Normalization(axis=None, mean=mean, variance=variance, dtype="float32")
    layer.build((None,))  # here, or its constants would belong to the first graph that traces it

    def standardize(values: tf.Tensor) -> tf.Tensor:
        standardized = layer(tf.cast(values, tf.float32))
        return tf.where(tf.math.is_nan(standardized), 0.0, standardized)

    return standardize


def _bucket_ids(statistics: FeatureStatistics) -> tuple[Transform, int]:
    """Quantile bins numbered from 1, so that 0 can stand for a missing value."""
    quantiles = statistics.numeric.quantiles if statistics.numeric else ()
    boundaries = sorted(set(quantiles[1:-1]))
    layer = keras.layers.Discretization(bin_boundaries=boundaries or [0.0], dtype="int32")

    def bucket(values: tf.Tensor) -> tf.Tensor:
        numbers = tf.cast(values, tf.float32)
        missing = tf.math.is_nan(numbers)
        return tf.where(missing, 0, 1 + tf.cast(layer(tf.where(missing, 0.0, numbers)), tf.int32))

    return bucket, len(layer.bin_boundaries) + 2


def _word_ids(feature: Text) -> Transform:
    """The first `length` words as 1 + hash, padded with 0."""
    hashing = keras.layers.Hashing(num_bins=feature.buckets)

    def ids(text: tf.Tensor) -> tf.Tensor:
        words = tf.strings.split(text)
        hashed = words.with_flat_values(1 + tf.cast(hashing(words.flat_values), tf.int32))
        return hashed[:, : feature.length].to_tensor(shape=[None, feature.length])

    return ids


def _token_ids(tokens: tf.Tensor) -> tf.Tensor:
    return 1 + tf.cast(tokens, tf.int32)


def _only_image(schema: Schema) -> Image | None:
    images = schema.of_kind(Image)
    if len(images) > 1:
        raise InputError(
            f"schema '{schema.name}'",
            received=f"{len(images)} image features",
            expected="at most one",
            action="Leave the others out of the schema that you train with.",
        )
    return images[0] if images else None


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
