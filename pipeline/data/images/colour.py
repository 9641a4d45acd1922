"""Brightness, contrast, saturation and hue of an image, as Pillow and torchvision define them."""

import tensorflow as tf

from pipeline.data.images.keyed_random import Draws
from pipeline.data.images.pixels import scaled

Factor = tf.Tensor | float  # float32 []

# ITU-R BT.601, in the 16 bits that Pillow has it in: whole numbers, so that a luma is exact in float32.
_LUMA = (19595 / 65536, 38470 / 65536, 7471 / 65536)
_HUES = (0.0, 2.0, -2.0)  # of red, green and blue on a circle of 6


def jitter(
    image: tf.Tensor, draws: Draws, *, brightness: float, contrast: float, saturation: float, hue: float
) -> tf.Tensor:
    """Changes colours by factors drawn from 1 ± each limit, uniformly; `hue` is in turns, at most 0.5.

    The ranges are those of torchvision's ColorJitter, which draws the order of the four too, and clips after
    each.

    Args:
      image: uint8 [height, width, 1, 3 or 4].

    Returns:
      The same shape and dtype.
    """
    limits = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
    changes = dict(zip(limits, draws.symmetric("colour", *limits.values()), strict=True))
    neutral = {name: 0.0 if name == "hue" else 1.0 for name in limits}
    return adjust(image, **{name: neutral[name] + changes[name] for name, limit in limits.items() if limit})


def adjust(
    image: tf.Tensor,
    *,
    brightness: Factor = 1.0,
    contrast: Factor = 1.0,
    saturation: Factor = 1.0,
    hue: Factor = 0.0,
) -> tf.Tensor:
    """Applies the factors, each float32 [], to uint8 [height, width, 1, 3 or 4]; the shape stays.

    The first three are those of Pillow's ImageEnhance: brightness scales; contrast scales about the mean of
    all lumas, a whole number; saturation scales about each pixel's own luma. They are linear, so they cost
    one multiplication by a matrix; the result is clipped once. Then hue turns the circle of HSV, as
    torchvision's adjust_hue does. Levels are rounded, where Pillow cuts them off.
    """
    channels = image.shape[2]
    if channels == 4:
        factors = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
        return tf.concat([adjust(image[..., :3], **factors), image[..., 3:]], axis=2)
    pixels = scaled(tf.reshape(image, [-1, channels]), scale=1.0, offset=0.0)
    mapped = _mixed(pixels, brightness * contrast, saturation)
    if _changes(contrast, 1.0):
        mapped += (1.0 - contrast) * brightness * _mean_luma(pixels)
    if channels == 3 and _changes(hue, 0.0):
        mapped = _turned(tf.clip_by_value(mapped, 0.0, 255.0), hue)
    return tf.reshape(to_uint8(mapped), image.shape)


def to_uint8(pixels: tf.Tensor) -> tf.Tensor:
    """float32, of any shape → the nearest of 0 … 255, uint8 of the same shape."""
    return tf.cast(tf.clip_by_value(pixels, 0.0, 255.0) + 0.5, tf.uint8)


def _changes(factor: Factor, neutral: float) -> bool:
    """Whether it may change anything; of a tensor, nobody knows before the graph runs."""
    return tf.is_tensor(factor) or factor != neutral


def _mixed(pixels: tf.Tensor, factor: Factor, saturation: Factor) -> tf.Tensor:
    """Scaled, and scaled about their own lumas: float32 [n, 1 or 3] → the same."""
    if pixels.shape[1] == 1 or not _changes(saturation, 1.0):
        return pixels * factor
    grey = tf.tile(tf.constant(_LUMA)[:, None], [1, 3])
    return pixels @ (factor * (saturation * tf.eye(3) + (1.0 - saturation) * grey))


def _mean_luma(pixels: tf.Tensor) -> tf.Tensor:
    """Rounded, of rounded lumas: float32 [n, 1 or 3] → float32 []."""
    if pixels.shape[1] == 3:
        pixels = tf.floor(tf.linalg.matvec(pixels, tf.constant(_LUMA)) + 0.5)
    return tf.floor(tf.reduce_mean(pixels) + 0.5)


def _turned(pixels: tf.Tensor, turns: Factor) -> tf.Tensor:
    """Turns hues about the circle of HSV: float32 [n, 3] → the same; greatest and least of a pixel stay.

    A. R. Smith, "Color Gamut Transform Pairs" (1978). Hues are kept times their pixel's chroma (greatest less
    least), which takes no division: nearly half of the CPU time of AdjustHue (TensorFlow 2.21, measured).
    """
    red, green, blue = tf.unstack(pixels, axis=1)
    most = tf.maximum(tf.maximum(red, green), blue)
    least = tf.minimum(tf.minimum(red, green), blue)
    chroma = most - least
    of_green, of_blue = 2.0 * chroma + blue - red, red - green - 2.0 * chroma
    hue = tf.where(tf.equal(red, most), green - blue, tf.where(tf.equal(green, most), of_green, of_blue))
    turned = []
    for own in _HUES:
        by = tf.math.floormod(6.0 * turns - own + 3.0, 6.0) - 3.0
        from_opposite = tf.abs(tf.abs(hue + by * chroma) - 3.0 * chroma)  # of the channel's own hue
        turned.append(tf.clip_by_value(from_opposite - chroma + least, least, most))
    return tf.transpose(tf.stack(turned))
