"""RandAugment (Cubuk et al. 2020): a few operations drawn from a fixed list, all of one strength.

The list is the paper's, the ranges are AutoAugment's. keras.layers.RandAugment computes every operation for
every image and keeps one, drawn from a generator whose state depends on the order of calls; here only the
drawn one runs.
"""

import math
from collections.abc import Callable

import tensorflow as tf

from pipeline.data.errors import InputError
from pipeline.data.images import colour, geometry
from pipeline.data.images.augmentation import LARGEST_MAGNITUDE
from pipeline.data.images.keyed_random import Draws

_LARGEST_CHANGE = 0.9  # of brightness, contrast, saturation, sharpness
_LARGEST_TURN = math.radians(30.0)
_LARGEST_SHEAR = 0.3
_LARGEST_SHIFT = 0.45  # of the side
_LEAST_BITS = 4

# Every operation takes and gives these.
Image = tf.Tensor  # uint8 [height, width, 1 or 3]
Amount = tf.Tensor  # float32 [], -1 to 1; operations of one direction take its absolute value


def rand_augment(image: Image, draws: Draws, *, operations: int, magnitude: float) -> Image:
    """Applies so many operations, one after another.

    Args:
      image: uint8 [height, width, 1 or 3]; the result has the same shape and dtype.
      magnitude: 0 to LARGEST_MAGNITUDE; the direction is drawn.
    """
    if image.shape[2] not in (1, 3):
        raise InputError(
            "augmentation 'rand_augment'",
            received=f"an image of {image.shape[2]} channels",
            expected="1 or 3: its operations would change transparency",
            action="Set the schema's channels to 3, or --config.augmentation.rand_augment=0.",
        )
    for number in range(operations):
        which, direction = draws.uniform(f"rand_augment {number}", 2)
        amount = tf.where(direction < 0.5, -1.0, 1.0) * (magnitude / LARGEST_MAGNITUDE)
        image = _one_of(image, amount, tf.cast(which * len(_OPERATIONS), tf.int32))
    return image


def _one_of(image: Image, amount: Amount, which: tf.Tensor) -> Image:
    branches = [lambda operation=operation: operation(image, amount) for operation in _OPERATIONS]
    return tf.ensure_shape(tf.switch_case(which, branches), image.shape)


def identity(image: Image, amount: Amount) -> Image:
    """Leaves the image as it is."""
    return image


def auto_contrast(image: Image, amount: Amount) -> Image:
    """Stretches each channel to 0 … 255."""
    pixels = tf.cast(image, tf.float32)
    least, most = tf.reduce_min(pixels, axis=[0, 1]), tf.reduce_max(pixels, axis=[0, 1])
    stretched = (pixels - least) * (255.0 / tf.maximum(most - least, 1.0))
    return tf.where(most > least, colour.to_uint8(stretched), image)


def equalize(image: Image, amount: Amount) -> Image:
    """Gives each channel a histogram as flat as whole levels allow."""
    channels = [_equalized(image[..., channel]) for channel in range(image.shape[2])]
    return tf.stack(channels, axis=2)


def _equalized(channel: tf.Tensor) -> tf.Tensor:
    levels = tf.cast(channel, tf.int32)
    counts = tf.math.bincount(tf.reshape(levels, [-1]), minlength=256, maxlength=256)
    below = tf.cumsum(counts)
    first = tf.reduce_min(tf.where(counts > 0, below, tf.int32.max))
    steps = tf.cast(below - first, tf.float32) * 255.0 / tf.cast(tf.maximum(below[-1] - first, 1), tf.float32)
    flat = tf.gather(colour.to_uint8(steps), levels)
    return tf.where(below[-1] > first, flat, channel)


def rotate(image: Image, amount: Amount) -> Image:
    """Turns about the centre, up to _LARGEST_TURN."""
    cosine, sine = tf.cos(_LARGEST_TURN * amount), tf.sin(_LARGEST_TURN * amount)
    return geometry.affine(image, [[cosine, -sine], [sine, cosine]], [0.0, 0.0])


def shear_x(image: Image, amount: Amount) -> Image:
    """Shifts rows sideways, in proportion to their distance from the centre."""
    return geometry.affine(image, [[1.0, _LARGEST_SHEAR * amount], [0.0, 1.0]], [0.0, 0.0])


def shear_y(image: Image, amount: Amount) -> Image:
    """Shifts columns up or down, in proportion to their distance from the centre."""
    return geometry.affine(image, [[1.0, 0.0], [_LARGEST_SHEAR * amount, 1.0]], [0.0, 0.0])


def shift_x(image: Image, amount: Amount) -> Image:
    """Moves sideways, up to _LARGEST_SHIFT of the width."""
    return geometry.affine(image, [[1.0, 0.0], [0.0, 1.0]], [_LARGEST_SHIFT * image.shape[1] * amount, 0.0])


def shift_y(image: Image, amount: Amount) -> Image:
    """Moves up or down, up to _LARGEST_SHIFT of the height."""
    return geometry.affine(image, [[1.0, 0.0], [0.0, 1.0]], [0.0, _LARGEST_SHIFT * image.shape[0] * amount])


def brightness(image: Image, amount: Amount) -> Image:
    """Scales all levels."""
    return colour.adjust(image, brightness=1.0 + _LARGEST_CHANGE * amount)


def contrast(image: Image, amount: Amount) -> Image:
    """Scales about the image's mean luma."""
    return colour.adjust(image, contrast=1.0 + _LARGEST_CHANGE * amount)


def saturation(image: Image, amount: Amount) -> Image:
    """Scales about each pixel's luma."""
    return colour.adjust(image, saturation=1.0 + _LARGEST_CHANGE * amount)


def sharpness(image: Image, amount: Amount) -> Image:
    """Moves pixels away from, or towards, the mean of their neighbours, themselves counted five times."""
    pixels = tf.cast(image, tf.float32)[None]
    kernel = tf.constant([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]]) / 13.0
    kernel = tf.tile(kernel[:, :, None, None], [1, 1, image.shape[2], 1])
    padded = tf.pad(pixels, [[0, 0], [1, 1], [1, 1], [0, 0]], "SYMMETRIC")
    smooth = tf.nn.depthwise_conv2d(padded, kernel, strides=[1, 1, 1, 1], padding="VALID")
    return colour.to_uint8(smooth + (1.0 + _LARGEST_CHANGE * amount) * (pixels - smooth))[0]


def solarize(image: Image, amount: Amount) -> Image:
    """Inverts what is brighter than a threshold."""
    threshold = 255.0 * (1.0 - tf.abs(amount))
    return tf.where(tf.cast(image, tf.float32) > threshold, 255 - image, image)


def posterize(image: Image, amount: Amount) -> Image:
    """Keeps the upper bits of each value."""
    dropped = tf.cast(tf.round((8 - _LEAST_BITS) * tf.abs(amount)), tf.uint8)
    return tf.bitwise.left_shift(tf.bitwise.right_shift(image, dropped), dropped)


_OPERATIONS: tuple[Callable[[Image, Amount], Image], ...] = (
    identity,
    auto_contrast,
    equalize,
    rotate,
    solarize,
    saturation,
    posterize,
    contrast,
    brightness,
    sharpness,
    shear_x,
    shear_y,
    shift_x,
    shift_y,
)
