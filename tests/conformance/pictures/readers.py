"""What becomes of pictures in the conversion, in training, in evaluation and in serving."""

import functools
import io
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import PIL.Image
import PIL.ImageOps
import tensorflow as tf

from beam_jobs.cells.images import BadImageError, normalized
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.decoding import decode_image
from pipeline.data.input import stages
from pipeline.data.input.stages import Stage, image_stages
from pipeline.data.input.training import parse_stage
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.preprocessing.requests import clean_requests, serialize
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import describe

Read = Callable[[Sequence[bytes]], Sequence[np.ndarray]]  # files → each one's uint8 [height, width, channels]
# Height, width and channels of a model's input → by name, ways in which pictures reach it.
Ways = Callable[[int, int, int], Mapping[str, Read]]

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
MAX_PIXELS = 1_000_000
# A part of the picture that only the whole of it can be: so training decodes by cropping, and shows it all.
_WHOLE = Augmentation(crop_area=(0.9999, 1.0))


def stored(data: bytes, *, channels: int) -> bytes | str:
    """What a record holds of a file, or why the conversion leaves it out."""
    try:
        return normalized(data, _feature(channels))
    except BadImageError as error:
        return str(error)


def by_pillow(data: bytes, *, channels: int) -> np.ndarray:
    """The picture the way up that it is meant to be seen: uint8 [height, width, channels]."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with PIL.Image.open(io.BytesIO(data)) as image:
            seen = PIL.ImageOps.exif_transpose(image)
    if seen.mode == "I;16":  # which Pillow clips
        seen = PIL.Image.fromarray((np.asarray(seen) // 256).astype(np.uint8))
    pixels = np.asarray(seen.convert(MODES[channels]))
    return pixels.reshape(*pixels.shape[:2], channels)


@functools.cache
def readers(height: int, width: int, channels: int) -> Mapping[str, Read]:
    """By name: each way in which a picture of the conversion reaches a model of this input."""
    schema = Schema(name="pictures", features=(_feature(channels), Label(name="y", classes=("a", "b"))))
    statistics = describe(schema, [{"image": b"", "y": 0}])
    preprocess = Preprocess(schema, statistics, image_size=(height, width))
    model_inputs = Stage(name="preprocess", apply=lambda features, labels: (preprocess(features), labels))
    augmented = functools.partial(image_stages, schema, preprocess, seed=0)
    paths = {
        "training": (*augmented(augmentation=Augmentation()), model_inputs),
        "training that crops": (*augmented(augmentation=_WHOLE), model_inputs),
        "evaluation": (parse_stage(schema), model_inputs),
    }
    serve = tf.function(lambda images: preprocess(clean_requests({"image": images}, schema))["image"])
    serve = serve.get_concrete_function(tf.TensorSpec([None], tf.string))
    staged = {name: _staged(schema, some) for name, some in paths.items()}
    return {**staged, "serving": lambda files: serve(tf.constant(list(files))).numpy()}


def decoder(height: int, width: int, channels: int) -> Mapping[str, Read]:
    """What all of `readers` decode with, in each picture's own size; traced once."""
    del height, width
    decode = _decoder(channels)
    return {"decoding": lambda files: [decode(tf.constant(data)).numpy() for data in files]}


@functools.cache
def _decoder(channels: int) -> Callable[[tf.Tensor], tf.Tensor]:
    decode = functools.partial(decode_image, channels=channels, max_pixels=MAX_PIXELS)
    return tf.function(decode, input_signature=[tf.TensorSpec([], tf.string)], autograph=False)


def _feature(channels: int) -> Image:
    return Image(name="image", channels=channels, max_pixels=MAX_PIXELS)


def _staged(schema: Schema, some: Sequence[Stage]) -> Read:
    """Records of the files through these stages, as the input pipeline runs them, made once."""
    records = tf.Variable(tf.constant([""]), shape=[None], trainable=False)

    def group() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(0).map(
            lambda _: (tf.range(tf.size(records, tf.int64), dtype=tf.int64), records.read_value())
        )

    prepared = stages.apply(group(), some)

    def read(files: Sequence[bytes]) -> np.ndarray:
        rows = {"image": np.array(list(files), object), "y": np.zeros(len(files), np.int64)}
        records.assign(serialize(rows, schema))
        inputs, _ = next(iter(prepared))
        return inputs["image"].numpy()

    return read
