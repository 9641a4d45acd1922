"""Raw feature tensors → model inputs, by Keras layers built from the dataset's statistics.

Runs on the host, in the input pipeline and inside the exported signatures alike, so training and serving
cannot differ. It holds nothing that training changes and is never checkpointed: a restored lookup or
normalization layer silently loses its state (measured), a rebuilt one cannot.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import tensorflow as tf

from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.errors import InputError
from pipeline.data.images.decoding import decode_images
from pipeline.data.images.pixels import RESCALING, require_image_dtype, rescaling_left
from pipeline.data.preprocessing import numbers
from pipeline.data.preprocessing.kinds import Transform, inputs_by_kind
from pipeline.data.preprocessing.measured import check_measured
from pipeline.data.schema.kinds import Image
from pipeline.data.schema.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """The tensors that a model is fed with, so all that is needed to build one.

    `image`: [batch, height, width, channels] of `image_dtype`; `numeric`: finite float32 [batch, numeric];
    `categories`: int32 [batch, len(cardinalities)], each column below its cardinality; and by its name each
    sequence, int32 [batch, length], each id below its size, 0 = padding.
    """

    image_shape: tuple[int, int, int] | None  # height, width, channels
    numeric: int
    cardinalities: tuple[int, ...]
    sequences: Mapping[str, tuple[int, int]]  # length and size
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
        check_measured(schema)
        kinds = inputs_by_kind(schema.features, statistics)
        numeric = [part for inputs in kinds for part in inputs.numeric]
        categories = [part for inputs in kinds for part in inputs.categories]
        sequences = [part for inputs in kinds for part in inputs.sequences]
        # Lists of pairs, not of dataclasses: in these TensorFlow would not find the tables that it exports.
        self._numeric = [(part.features, part.transform) for part in numeric]
        self._categories = [(part.features, part.transform) for part in categories]
        self._sequences = {part.feature: part.transform for part in sequences}
        self._columns_of = {
            "numeric": [name for part in numeric for name in _names(part.features, part.width)],
            "categories": [
                name for part in categories for name in _names(part.features, len(part.cardinalities))
            ],
        }
        self.image = next((inputs.image for inputs in kinds if inputs.image), None)
        self._image_shape = self.image and _image_shape(self.image, image_size)
        self.inputs = ModelInputs(
            image_shape=self._image_shape,
            numeric=sum(part.width for part in numeric),
            cardinalities=tuple(itertools.chain(*(part.cardinalities for part in categories))),
            sequences={part.feature: (part.length, part.size) for part in sequences},
            image_dtype=require_image_dtype(image_dtype),
            image_rescaling=rescaling_left(image_dtype),
        )

    @property
    def columns(self) -> dict[str, list[str]]:
        """The feature that each column of `numeric` and of `categories` is of."""
        return {name: list(features) for name, features in self._columns_of.items()}

    def __call__(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Raw features, each [batch, …] → the tensors that `inputs` describes."""
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
        """Images as models take them, of files, string [batch], or of what training made of them."""
        if images.dtype != tf.string:
            return tf.ensure_shape(images, [None, *self._image_shape])
        return decode_images(
            images,
            self._image_shape,
            max_pixels=self.image.max_pixels,
            image_dtype=self.inputs.image_dtype,
        )


def _names(features: Sequence[str], width: int) -> list[str]:
    """The feature of each column: all of one feature's, or one each of several."""
    return list(features) * width if len(features) == 1 else list(features)


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
