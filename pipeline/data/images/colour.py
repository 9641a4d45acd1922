"""Brightness, contrast, saturation and hue, as one affine map of each pixel's (red, green, blue)."""

import math

import tensorflow as tf

from pipeline.data.images.keyed_random import Draws

_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601
_TO_YIQ = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))  # NTSC, 1953


def jitter(
    image: tf.Tensor, draws: Draws, *, brightness: float, contrast: float, saturation: float, hue: float
) -> tf.Tensor:
    """Changes colours by factors drawn from 1 ± each limit; `hue` is in turns, at most 0.5.

    Args:
      image: uint8 [height, width, 1, 3 or 4].

    Returns:
      The same shape and dtype.
    """
    changes = draws.symmetric("colour", brightness, contrast, saturation, hue)
    return adjust(
        image,
        brightness=1.0 + changes[0],
        contrast=1.0 + changes[1],
        saturation=1.0 + changes[2],
        hue=changes[3],
    )


def adjust(
    image: tf.Tensor,
    *,
    brightness: tf.Tensor | float = 1.0,
    contrast: tf.Tensor | float = 1.0,
    saturation: tf.Tensor | float = 1.0,
    hue: tf.Tensor | float = 0.0,
) -> tf.Tensor:
    """Applies the factors, each float32 [], to uint8 [height, width, 1, 3 or 4]; the shape stays.

    Brightness scales; contrast scales about the image's mean luma; saturation scales about each pixel's own
    luma; hue turns the colour plane of YIQ. All four are linear, so they cost one multiplication by a matrix;
    the result is clipped once.
    """
    channels = image.shape[2]
    if channels == 4:
        colour = adjust(
            image[..., :3], brightness=brightness, contrast=contrast, saturation=saturation, hue=hue
        )
        return tf.concat([colour, image[..., 3:]], axis=2)
    luma = tf.constant(_LUMA if channels == 3 else [1.0])
    pixels = tf.cast(tf.reshape(image, [-1, channels]), tf.float32)
    mean = tf.tensordot(tf.reduce_mean(pixels, axis=0), luma, 1)
    scaled = (
        brightness * contrast * _colour_matrix(saturation, hue) if channels == 3 else brightness * contrast
    )
    mapped = tf.linalg.matmul(pixels, scaled, transpose_b=True) if channels == 3 else pixels * scaled
    return tf.reshape(to_uint8(mapped + (1.0 - contrast) * brightness * mean), image.shape)


def to_uint8(pixels: tf.Tensor) -> tf.Tensor:
    """float32, of any shape → the nearest of 0 … 255, uint8 of the same shape."""
    return tf.cast(tf.clip_by_value(pixels, 0.0, 255.0) + 0.5, tf.uint8)


def _colour_matrix(saturation: tf.Tensor | float, hue: tf.Tensor | float) -> tf.Tensor:
    """Turns and scales colours about grey, which stays: float32 [3, 3]."""
    to_yiq = tf.constant(_TO_YIQ)
    angle = 2.0 * math.pi * tf.convert_to_tensor(hue)
    cosine, sine = saturation * tf.cos(angle), saturation * tf.sin(angle)
    turn = tf.stack([[1.0, 0.0, 0.0], tf.stack([0.0, cosine, sine]), tf.stack([0.0, -sine, cosine])])
    return tf.linalg.inv(to_yiq) @ turn @ to_yiq
