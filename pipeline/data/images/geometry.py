"""Flips and affine maps of an image: shifts, turns, changes of scale, shears."""

import math

import tensorflow as tf

from pipeline.data.images.keyed_random import Draws


def flip(image: tf.Tensor, draws: Draws) -> tf.Tensor:
    """Mirrors left to right, half of the time: uint8 [height, width, channels] → the same."""
    (number,) = draws.uniform("flip", 1)
    return tf.cond(number < 0.5, lambda: tf.reverse(image, [1]), lambda: image)


def move(image: tf.Tensor, draws: Draws, *, shift: float, rotate_degrees: float, zoom: float) -> tf.Tensor:
    """Shifts, turns and scales an image by drawn amounts, each up to a limit.

    Args:
      image: uint8 [height, width, channels]; the result has the same shape and dtype.
      shift: as a fraction of the side.
      zoom: 0.1 means a scale of 0.9 to 1.1.
    """
    angle, change, right, down = draws.symmetric("move", math.radians(rotate_degrees), zoom, shift, shift)
    scale = 1.0 / (1.0 + change)
    cosine, sine = scale * tf.cos(angle), scale * tf.sin(angle)
    height, width = image.shape[:2]
    return affine(image, [[cosine, -sine], [sine, cosine]], [right * width, down * height])


def affine(image: tf.Tensor, matrix: list[list], shift: list) -> tf.Tensor:
    """Maps an image about its centre; what lies outside of it is black.

    Args:
      image: uint8 [height, width, channels]; the result has the same shape and dtype.
      matrix: 2 x 2, from an output pixel's (x, y), in pixels from the centre, to its source in `image`.
      shift: (x, y), in pixels, added to the source.
    """
    (xx, xy), (yx, yy) = matrix
    x, y = (image.shape[1] - 1) / 2, (image.shape[0] - 1) / 2  # the centre
    rows = [xx, xy, x - xx * x - xy * y + shift[0], yx, yy, y - yx * x - yy * y + shift[1], 0.0, 0.0]
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=image[None],
        transforms=tf.stack([tf.cast(value, tf.float32) for value in rows])[None],
        output_shape=image.shape[:2],
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )[0]
