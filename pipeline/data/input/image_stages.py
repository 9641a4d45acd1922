"""Stages of training images: parsed together, decoded and changed one by one, mixed in pairs, normalized."""

import functools

import tensorflow as tf

from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.mixing import mixed_pair
from pipeline.data.images.pixels import normalize
from pipeline.data.images.training_image import (
    CropPlan,
    augment_image,
    decode_planned,
    decode_training_image,
    plan_crops,
)
from pipeline.data.input.stages import Stage
from pipeline.data.preprocessing.preprocess import ModelInputs, Preprocess
from pipeline.data.reading import parsing
from pipeline.data.schema.kinds import Image
from pipeline.data.schema.schema import Schema

Features = dict[str, tf.Tensor]


def image_stages(
    schema: Schema, preprocess: Preprocess, *, augmentation: Augmentation, seed: int
) -> tuple[Stage, ...]:
    """(positions int64 [n], records string [n]) → (raw features, whose images are pixels, labels [n]).

    Where images are mixed, n is even, and each example's share in its mixed image comes last, float32 [n].
    """
    image, inputs = preprocess.image, preprocess.inputs
    changes = {"image": image, "augmentation": augmentation, "seed": seed}
    return (
        Stage(name="parse", apply=functools.partial(_parse, schema=schema)),
        *_decode_stages(inputs, **changes),
        Stage(name="augment", apply=functools.partial(_augment, **changes), each=True),
        *((Stage(name="mix", apply=functools.partial(_mix, **changes)),) if augmentation.mixes else ()),
        Stage(name="normalize", apply=functools.partial(_normalize, image=image, inputs=inputs)),
    )


def _parse(positions: tf.Tensor, records: tf.Tensor, *, schema: Schema) -> tuple:
    return positions, *parsing.parse_examples(records, schema)


def _decode_stages(
    inputs: ModelInputs, *, image: Image, augmentation: Augmentation, seed: int
) -> list[Stage]:
    """(positions, features, labels [n]) → the same with pixels; crops are planned for a group at once."""
    how = {
        "shape": inputs.image_shape,
        "max_pixels": image.max_pixels,
        "augmentation": augmentation,
        "seed": seed,
    }

    def crop(positions: tf.Tensor, features: Features, labels: tf.Tensor) -> tuple:
        return positions, features, labels, plan_crops(features[image.name], positions, **how)

    def decode(position: tf.Tensor, features: Features, label: tf.Tensor, *plan: CropPlan) -> tuple:
        decode_one = decode_planned if plan else decode_training_image
        pixels = decode_one(features[image.name], position, *plan, **how)
        return position, features | {image.name: pixels}, label

    plan = [Stage(name="crop", apply=crop)] if augmentation.crops else []
    return [*plan, Stage(name="decode", apply=decode, each=True)]


def _augment(
    position: tf.Tensor,
    features: Features,
    label: tf.Tensor,
    *,
    image: Image,
    augmentation: Augmentation,
    seed: int,
) -> tuple:
    pixels = augment_image(features[image.name], position, augmentation=augmentation, seed=seed)
    changed = features | {image.name: pixels}
    return (position, changed, label) if augmentation.mixes else (changed, label)


def _mix(
    positions: tf.Tensor,
    features: Features,
    labels: tf.Tensor,
    *,
    image: Image,
    augmentation: Augmentation,
    seed: int,
) -> tuple:
    pixels = features[image.name]
    form = tf.TensorSpec([2, *pixels.shape[1:]], tf.uint8), tf.TensorSpec([], tf.float32)
    mixed, shares = tf.map_fn(
        lambda pair: mixed_pair(*pair, augmentation=augmentation, seed=seed),
        (tf.reshape(pixels, [-1, 2, *pixels.shape[1:]]), positions[::2]),
        fn_output_signature=form,
        parallel_iterations=1,
    )
    pixels = tf.reshape(mixed, [-1, *pixels.shape[1:]])
    return features | {image.name: pixels}, labels, tf.repeat(shares, 2)


def _normalize(
    features: Features, labels: tf.Tensor, *shares: tf.Tensor, image: Image, inputs: ModelInputs
) -> tuple:
    pixels = normalize(features[image.name], inputs.image_dtype)
    return features | {image.name: pixels}, labels, *shares
