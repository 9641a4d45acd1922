"""The changes of a training image, in this order: cut out, flipped, moved, recoloured, RandAugment, mixed.

Every step is a pure function of (seed, index); the index is the example's position in the training stream. A
run that resumes, on any number of hosts and threads, sees the same pixels.
"""

import functools
from typing import NamedTuple

import numpy as np
import scipy.stats
import tensorflow as tf

from pipeline.base.tracing import for_each, tf_function
from pipeline.data.images import formats
from pipeline.data.images import rand_augment as rand_augment_lib
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.crop import JpegPart, jpeg_part, random_box, random_parts, times_larger, tries
from pipeline.data.images.decoding import Shape, decode_crop, decode_jpeg_part, decode_whole
from pipeline.data.images.pixels import Draws
from pipeline.data.images.rand_augment import rand_augment


def decode_training_image(
    data: tf.Tensor,
    index: tf.Tensor,
    *,
    shape: Shape,
    max_pixels: int,
    augmentation: Augmentation,
    seed: int,
) -> tf.Tensor:
    """Decodes and resizes the part of an encoded image that training shows.

    Args:
      data: string [], a JPEG or PNG file.
      index: int64 [], the example's position in the training stream.
      shape: height, width and channels to return: `preprocess.inputs.image_shape`.
      max_pixels: `preprocess.image.max_pixels`.

    Returns:
      uint8 [*shape].

    Raises:
      tf.errors.InvalidArgumentError: the image is refused; see pixels.py.
    """
    if not augmentation.crops:
        return decode_whole(data, shape, max_pixels=max_pixels)
    draws = Draws(seed=seed, index=index)
    box = random_box(draws, area=augmentation.crop_area, aspect=augmentation.crop_aspect)
    return decode_crop(data, box, shape, max_pixels=max_pixels)


class CropPlan(NamedTuple):
    """The crops of several images, [n, …] each, or of one image, found before any is decoded.

    An operation costs about as much for one image as for a group: drawing and finding each crop by itself
    took more time than resizing it.
    """

    # Bool [n]: an upright JPEG that shrinks by less than two; for the others no crop is planned here.
    is_plain: tf.Tensor
    part: JpegPart  # the part, for plain ones


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
    is_plain = tf.io.is_jpeg(encoded) & ~formats.may_be_turned(formats.first_bytes(encoded))
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
    """Returns what `decode_training_image` returns, with the plan of this one image."""

    def other() -> tf.Tensor:
        return decode_training_image(
            data, position, shape=shape, max_pixels=max_pixels, augmentation=augmentation, seed=seed
        )

    pixels = tf.cond(plan.is_plain, lambda: decode_jpeg_part(data, plan.part, shape), tf_function(other))
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
        image = rand_augment_lib.flip(image, draws)
    moves = {name: getattr(augmentation, name) for name in ("shift", "rotate_degrees", "zoom")}
    if any(moves.values()):
        image = rand_augment_lib.move(image, draws, **moves)
    changes = {name: getattr(augmentation, name) for name in ("brightness", "contrast", "saturation", "hue")}
    if any(changes.values()):
        image = rand_augment_lib.jitter(image, draws, **changes)
    if augmentation.rand_augment:
        image = rand_augment(
            image,
            draws,
            operations=augmentation.rand_augment,
            magnitude=augmentation.rand_augment_magnitude,
        )
    return image


# --- Mixes training images in pairs: whole images (mixup), or with a box of one put into the other (cutmix).

_QUANTILES = 4_096  # points between which a share is interpolated
_LEAST_ALPHA = 1e-6  # at this value all quantiles are 0 or 1, as for smaller ones; SciPy has none for 1e-308


def mixed_pair(
    images: tf.Tensor, first: tf.Tensor, *, augmentation: Augmentation, seed: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mixes two images with each other; returns them, and the share of itself that each keeps.

    H. Zhang and others, "mixup: Beyond Empirical Risk Minimization" (2018); S. Yun and others, "CutMix"
    (2019). Both draw the share of an image from Beta(α, α). Here two neighbours in the training stream, whose
    order is random, are mixed with each other: a pair's result is a pure function of (seed, its position).

    Args:
      images: uint8 [2, height, width, channels].
      first: int64 [], the position of the first one in the training stream.
      augmentation: `mixup`, `cutmix` or both are above 0; with both, half of the pairs have one and half the
        other.

    Returns:
      uint8 [2, height, width, channels], rounded; and the share, float32 [], from 0 to 1.
    """
    draws = Draws(seed=seed, index=first)
    which, of_share = draws.uniform("mix", 2)
    mixup, cutmix = augmentation.mixup, augmentation.cutmix
    if mixup and cutmix:
        return tf.cond(
            which < 0.5,
            lambda: _blended(images, _share(of_share, alpha=mixup)),
            lambda: _boxed(images, _share(of_share, alpha=cutmix), draws),
        )
    share = _share(of_share, alpha=mixup or cutmix)
    return _blended(images, share) if mixup else _boxed(images, share, draws)


def _blended(images: tf.Tensor, share: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    pixels = tf.cast(images, tf.float32)
    mixed = share * pixels + (1.0 - share) * _others(pixels)
    return tf.cast(tf.round(mixed), tf.uint8), share


def _boxed(images: tf.Tensor, share: tf.Tensor, draws: Draws) -> tuple[tf.Tensor, tf.Tensor]:
    """Puts a box of the other image into each. The box has the form of the paper; its centre may be anywhere,
    and it ends at the image's edge.
    """
    height, width = images.shape[1:3]
    row, column = draws.uniform("box", 2)
    side = tf.sqrt(1.0 - share)
    rows, columns = _within(row, side, height), _within(column, side, width)
    is_box = rows[:, None] & columns[None, :]  # (height, width)
    # A clipped box leaves more of the image, so the share is counted.
    left = 1.0 - tf.reduce_mean(tf.cast(is_box, tf.float32))
    # `tf.where` on two dimensions takes at most a third of its time on four.
    flat = tf.reshape(images, [2, -1])
    of_values = tf.repeat(tf.reshape(is_box, [-1]), images.shape[3])
    return tf.reshape(tf.where(of_values, _others(flat), flat), images.shape), left


def _others(images: tf.Tensor) -> tf.Tensor:
    """Swaps a pair, [2, …]; a slice with step -1 takes 80 times as long."""
    return tf.gather(images, [1, 0])


def _within(centre: tf.Tensor, side: tf.Tensor, size: int) -> tf.Tensor:
    """True for the pixels of `size` that lie in a box around `centre`, a fraction of `size`: bool [size]."""
    pixels, middle = tf.range(size), tf.cast(centre * size, tf.int32)
    half = tf.cast(side * size, tf.int32) // 2
    return (pixels >= middle - half) & (pixels < middle + half)


def _share(uniform: tf.Tensor, *, alpha: float) -> tf.Tensor:
    """The quantile of Beta(α, α) for a number in [0, 1), interpolated; float32 []."""
    table = tf.constant(_quantiles(alpha))
    place = uniform * (_QUANTILES - 1)
    below = tf.minimum(tf.cast(place, tf.int32), _QUANTILES - 2)
    part = place - tf.cast(below, tf.float32)
    return (1.0 - part) * table[below] + part * table[below + 1]


@functools.cache
def _quantiles(alpha: float) -> np.ndarray:
    """float32 [_QUANTILES], rising from 0 to 1."""
    alpha = max(alpha, _LEAST_ALPHA)
    return scipy.stats.beta.ppf(np.linspace(0, 1, _QUANTILES), alpha, alpha).astype(np.float32)
