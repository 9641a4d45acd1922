"""What a training image goes through, in this order: cut out, flipped, moved, recoloured, RandAugment.

Every step is a pure function of (seed, index); the index is the example's position in the training stream. A
run that resumes, on any number of hosts and threads, sees the same pixels.
"""

import functools
from typing import NamedTuple

import tensorflow as tf

from pipeline.data.images import colour, geometry, header, orientation
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.crop import JpegPart, jpeg_part, random_box, random_parts, times_larger, tries
from pipeline.data.images.decoding import Shape, decode_crop, decode_jpeg_part, decode_whole
from pipeline.data.images.keyed_random import Draws
from pipeline.data.images.rand_augment import rand_augment
from pipeline.data.tracing import apart, for_each


def decode_training_image(
    data: tf.Tensor,
    index: tf.Tensor,
    *,
    shape: Shape,
    max_pixels: int,
    augmentation: Augmentation,
    seed: int,
) -> tf.Tensor:
    """One encoded image, of which the part that training shows is decoded and resized.

    Args:
      data: string [], a JPEG, PNG, GIF, WebP or BMP file.
      index: int64 [], the example's position in the training stream.
      shape: height, width and channels to return: `preprocess.inputs.image_shape`.
      max_pixels: `preprocess.image.max_pixels`.

    Returns:
      uint8 [*shape].

    Raises:
      tf.errors.InvalidArgumentError: the image is refused; see limits.py.
    """
    if not augmentation.crops:
        return decode_whole(data, shape, max_pixels=max_pixels)
    draws = Draws(seed=seed, index=index)
    box = random_box(draws, area=augmentation.crop_area, aspect=augmentation.crop_aspect)
    return decode_crop(data, box, shape, max_pixels=max_pixels)


class CropPlan(NamedTuple):
    """The crops of images, [n, …] each, or of one of them, found before any is decoded.

    An operation costs about as much for one image as for a group of them: drawing and finding every crop by
    itself took more time than resizing it.
    """

    is_plain: tf.Tensor  # bool [n]: an upright JPEG that shrinks by less than two; others plan for themselves
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
    is_plain &= (pixels > 0) & (pixels <= max_pixels)
    is_plain &= tf.reduce_all(parts[:, 2:] <= [2 * side for side in shape[:2]], axis=1)
    times = times_larger(parts, shape)
    part = jpeg_part(parts, tf.cast(sizes, tf.int32), times=times)
    return CropPlan(is_plain=is_plain & (times < 2), part=part)


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


def augment_image(image: tf.Tensor, index: tf.Tensor, *, augmentation: Augmentation, seed: int) -> tf.Tensor:
    """Changes a decoded image, uint8 [height, width, channels] → the same shape and dtype.

    Args:
      index: int64 [], as above.
    """
    draws = Draws(seed=seed, index=index)
    if augmentation.flip:
        image = geometry.flip(image, draws)
    moves = {name: getattr(augmentation, name) for name in ("shift", "rotate_degrees", "zoom")}
    if any(moves.values()):
        image = geometry.move(image, draws, **moves)
    changes = {name: getattr(augmentation, name) for name in ("brightness", "contrast", "saturation", "hue")}
    if any(changes.values()):
        image = colour.jitter(image, draws, **changes)
    if augmentation.rand_augment:
        image = rand_augment(
            image,
            draws,
            operations=augmentation.rand_augment,
            magnitude=augmentation.rand_augment_magnitude,
        )
    return image
