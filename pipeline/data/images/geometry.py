"""Flips and affine maps of an image: shifts, turns, changes of scale, shears."""

import math
from collections.abc import Sequence

import tensorflow as tf

from pipeline.data.images.keyed_random import Draws
from pipeline.data.images.pixels import scaled

Number = tf.Tensor | float  # float32 []


def flip(image: tf.Tensor, draws: Draws) -> tf.Tensor:
    """Mirrors left to right, half of the time: uint8 [height, width, channels] → the same."""
    (number,) = draws.uniform("flip", 1)
    return tf.cond(number < 0.5, lambda: tf.reverse(image, [1]), lambda: image)


def move(image: tf.Tensor, draws: Draws, *, shift: float, rotate_degrees: float, zoom: float) -> tf.Tensor:
    """Turns and scales an image about its centre, then shifts it, as torchvision's RandomAffine does.

    Each amount is uniform up to its limit, either way. torchvision shifts by whole pixels.

    Args:
      image: uint8 [height, width, channels]; the result has the same shape and dtype.
      shift: as a fraction of the side.
      zoom: 0.1 means a scale of 0.9 to 1.1.
    """
    angle, change, right, down = draws.symmetric("move", math.radians(rotate_degrees), zoom, shift, shift)
    scale = 1.0 / (1.0 + change)
    cosine, sine = scale * tf.cos(angle), scale * tf.sin(angle)
    height, width = image.shape[:2]
    return affine(image, [[cosine, -sine], [sine, cosine]], shift=(right * width, down * height))


def affine(
    image: tf.Tensor,
    matrix: Sequence[Sequence[Number]],
    *,
    shift: Sequence[Number] = (0.0, 0.0),
    about: tuple[float, float] | None = None,
) -> tf.Tensor:
    """Maps an image, bilinearly and rounded; what lies outside of it is black.

    Args:
      image: uint8 [height, width, channels]; the result has the same shape and dtype.
      matrix: 2 x 2, from an output pixel's (x, y), in pixels from `about`, to its source in `image`.
      shift: (x, y), in pixels, by which the result is moved to the right and down.
      about: (x, y), in pixels from the centre of the upper left one; by default the centre of the image.
    """
    (xx, xy), (yx, yy) = matrix
    x, y = about or ((image.shape[1] - 1) / 2, (image.shape[0] - 1) / 2)
    right, down = x + shift[0], y + shift[1]
    rows = [xx, xy, x - xx * right - xy * down, yx, yy, y - yx * right - yy * down, 0.0, 0.0]
    # Of uint8, the operation cuts levels off: a picture would lose 0.4 of a level each time. The half that is
    # added to pixels and to what lies outside makes the last cast round, at no cost.
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=scaled(image, scale=1.0, offset=0.5)[None],
        transforms=tf.stack([tf.cast(value, tf.float32) for value in rows])[None],
        output_shape=image.shape[:2],
        fill_value=0.5,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )
    return tf.cast(moved[0], tf.uint8)
