"""Random crops of many images at once, planned before any is decoded.

An operation costs about as much for one image as for a group of them: drawing and finding every crop by
itself took more time than resizing it.
"""

import functools
from typing import NamedTuple

import tensorflow as tf

from pipeline.data.images import header, jpeg_part, orientation
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.crop import random_parts, tries
from pipeline.data.images.decoding import Shape, decode_jpeg_part
from pipeline.data.images.jpeg_part import JpegPart
from pipeline.data.images.keyed_random import Draws
from pipeline.data.images.training_image import decode_training_image
from pipeline.data.tracing import apart, for_each


class CropPlan(NamedTuple):
    """Of images, [n, …] each, or of one of them."""

    is_plain: tf.Tensor  # bool [n]: an upright JPEG that is small enough; others are planned one by one
    part: JpegPart  # of those that are plain


def plan_crops(
    encoded: tf.Tensor,
    positions: tf.Tensor,
    *,
    shape: Shape,
    max_pixels: int,
    augmentation: Augmentation,
    seed: int,
) -> CropPlan:
    """The crops of encoded images, string [n], as `decode_training_image` draws them one by one.

    Args:
      positions: int64 [n], in the training stream.
    """
    is_plain = tf.io.is_jpeg(encoded) & ~orientation.may_be_turned(header.first_bytes(encoded))
    sizes, drawn = for_each(functools.partial(_size_and_draws, seed), (encoded, positions, is_plain))
    pixels = tf.reduce_prod(sizes, axis=1)
    parts = random_parts(drawn, sizes, area=augmentation.crop_area, aspect=augmentation.crop_aspect)
    times = jpeg_part.times_larger(parts, shape)
    return CropPlan(
        is_plain=is_plain & (pixels > 0) & (pixels <= max_pixels),
        part=jpeg_part.of(parts, tf.cast(sizes, tf.int32), times=times),
    )


def decode_planned(
    data: tf.Tensor,
    position: tf.Tensor,
    plan: CropPlan,
    *,
    shape: Shape,
    max_pixels: int,
    augmentation: Augmentation,
    seed: int,
) -> tf.Tensor:
    """What `decode_training_image` returns; the plan is that of this one image."""

    def other() -> tf.Tensor:
        return decode_training_image(
            data, position, shape=shape, max_pixels=max_pixels, augmentation=augmentation, seed=seed
        )

    pixels = tf.cond(plan.is_plain, lambda: decode_jpeg_part(data, plan.part, shape), apart(other))
    return tf.ensure_shape(pixels, shape)


def _size_and_draws(
    seed: int, data: tf.Tensor, position: tf.Tensor, is_plain: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Height and width of a plain JPEG, int64 [2], and what `random_parts` takes for it."""
    size = tf.cond(
        is_plain,
        lambda: tf.io.extract_jpeg_shape(data, tf.int64)[:2],
        lambda: tf.ones([2], tf.int64),
    )
    return tf.ensure_shape(size, [2]), tries(Draws(seed=seed, index=position))
