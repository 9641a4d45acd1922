"""RandAugment (Cubuk et al. 2020): a few operations drawn from a fixed list, all of one strength.

The list is the paper's. It does not say how far each operation goes, and codes differ. Here strengths,
directions and centres are those of torchvision's RandAugment, bilinear, whose magnitudes 0 to 30 are 0 to 10.
Pixels are those of torchvision's tensors where they move, and of Pillow elsewhere. keras.layers.RandAugment
computes every operation for every image and keeps one, drawn from a generator whose state depends on the
order of calls; here only the drawn one runs.
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
_LARGEST_SHIFT = 150 / 331  # of the side: AutoAugment moved the images of 331 pixels by 150
_UNCHANGED = ((1.0, 0.0), (0.0, 1.0))
_CORNER = (-0.5, -0.5)  # the outer one of the upper left pixel
_LEAST_BITS = 4
_SHARP = ((0.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0))
_SMOOTH = ((1.0, 1.0, 1.0), (1.0, 5.0, 1.0), (1.0, 1.0, 1.0))

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
        which, direction = drawn(draws, number)
        image = _one_of(image, direction * (magnitude / LARGEST_MAGNITUDE), which)
    return image


def drawn(draws: Draws, number: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Which operation comes as the `number`-th, int32 [], and its direction, -1 or 1, float32 []; uniform."""
    which, direction = draws.uniform(f"rand_augment {number}", 2)
    return tf.cast(which * len(OPERATIONS), tf.int32), tf.where(direction < 0.5, -1.0, 1.0)


def _one_of(image: Image, amount: Amount, which: tf.Tensor) -> Image:
    branches = [lambda operation=operation: operation(image, amount) for operation in OPERATIONS]
    return tf.ensure_shape(tf.switch_case(which, branches), image.shape)


def identity(image: Image, amount: Amount) -> Image:
    """Leaves the image as it is."""
    return image


def auto_contrast(image: Image, amount: Amount) -> Image:
    """Stretches each channel to 0 … 255: Pillow's autocontrast, rounded where that cuts off."""
    pixels = tf.cast(image, tf.float32)
    least, most = tf.reduce_min(pixels, axis=[0, 1]), tf.reduce_max(pixels, axis=[0, 1])
    # A channel of one level stays as it is.
    lowest = tf.where(most > least, least, 0.0)
    scale = tf.where(most > least, 255.0 / tf.maximum(most - least, 1.0), 1.0)
    return colour.to_uint8((pixels - lowest) * scale)


def equalize(image: Image, amount: Amount) -> Image:
    """Gives each channel a histogram as flat as whole levels allow: Pillow's equalize, bit for bit."""
    channels = image.shape[2]
    levels = tf.cast(image, tf.int32) + 256 * tf.range(channels)  # one histogram after another
    counts = tf.raw_ops.DenseBincount(
        input=tf.reshape(levels, [-1]), size=256 * channels, weights=tf.zeros([0], tf.int32)
    )
    counts = tf.reshape(counts, [channels, 256])
    below = tf.cumsum(counts, axis=1, exclusive=True)
    step = tf.reduce_max(tf.where(counts > 0, below, 0), axis=1, keepdims=True) // 255
    flat = tf.minimum((step // 2 + below) // tf.maximum(step, 1), 255)
    table = tf.cast(tf.where(step > 0, flat, tf.range(256)), tf.uint8)
    return tf.gather(tf.reshape(table, [-1]), levels)


def rotate(image: Image, amount: Amount) -> Image:
    """Turns about the centre, up to _LARGEST_TURN."""
    cosine, sine = tf.cos(_LARGEST_TURN * amount), tf.sin(_LARGEST_TURN * amount)
    return geometry.affine(image, [[cosine, -sine], [sine, cosine]])


def shear_x(image: Image, amount: Amount) -> Image:
    """Shifts rows sideways, in proportion to their distance from the upper edge, as in AutoAugment's code."""
    return geometry.affine(image, [[1.0, _LARGEST_SHEAR * amount], [0.0, 1.0]], about=_CORNER)


def shear_y(image: Image, amount: Amount) -> Image:
    """Shifts columns up or down, in proportion to their distance from the left edge, likewise."""
    return geometry.affine(image, [[1.0, 0.0], [_LARGEST_SHEAR * amount, 1.0]], about=_CORNER)


def shift_x(image: Image, amount: Amount) -> Image:
    """Moves sideways by whole pixels, up to _LARGEST_SHIFT of the width."""
    return geometry.affine(image, _UNCHANGED, shift=(_whole(_LARGEST_SHIFT * image.shape[1] * amount), 0.0))


def shift_y(image: Image, amount: Amount) -> Image:
    """Moves up or down by whole pixels, up to _LARGEST_SHIFT of the height."""
    return geometry.affine(image, _UNCHANGED, shift=(0.0, _whole(_LARGEST_SHIFT * image.shape[0] * amount)))


def _whole(pixels: tf.Tensor) -> tf.Tensor:
    """Without what is behind the point."""
    return tf.sign(pixels) * tf.floor(tf.abs(pixels))


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
    """Moves pixels away from, or towards, the mean of their neighbours, themselves counted five times.

    As in Pillow, those on the edge stay.
    """
    height, width, channels = image.shape
    if height < 3 or width < 3:
        return image
    pixels = tf.cast(image, tf.float32)
    kernel = (tf.constant(_SHARP) - tf.constant(_SMOOTH) / 13.0)[:, :, None, None]
    kernel = tf.tile(kernel, [1, 1, channels, 1])
    detail = tf.nn.depthwise_conv2d(pixels[None], kernel, strides=[1, 1, 1, 1], padding="VALID")[0]
    detail = tf.pad(detail, [[1, 1], [1, 1], [0, 0]])
    return colour.to_uint8(pixels + _LARGEST_CHANGE * amount * detail)


def solarize(image: Image, amount: Amount) -> Image:
    """Inverts what is as bright as a threshold, or brighter."""
    threshold = 255.0 - 255.0 * tf.abs(amount)  # a whole number where it should be one
    is_bright = tf.cast(image, tf.float32) >= threshold
    return tf.compat.v1.where(is_bright, 255 - image, image)  # `tf.where` broadcasts: twice the time


def posterize(image: Image, amount: Amount) -> Image:
    """Keeps the upper bits of each value."""
    dropped = tf.cast(tf.round((8 - _LEAST_BITS) * tf.abs(amount)), tf.uint8)
    return tf.bitwise.left_shift(tf.bitwise.right_shift(image, dropped), dropped)


OPERATIONS: tuple[Callable[[Image, Amount], Image], ...] = (
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
