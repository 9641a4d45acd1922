"""Random resized crops: which part of its image a training example shows."""

import math

import tensorflow as tf

from pipeline.data.images.decoding import Box
from pipeline.data.images.keyed_random import Draws

_VECTOR = 16  # numbers that a processor calculates with at once, at most
_TRIES = 10  # to draw an area and aspect that fit into the image


def random_box(draws: Draws, *, area: tuple[float, float], aspect: tuple[float, float]) -> Box:
    """Draws the part of an image to show, as torchvision's RandomResizedCrop does.

    The crop is that of Szegedy et al. 2015, "Going Deeper with Convolutions". Where ten tries do not fit into
    the image, it is the largest part in the image's middle whose aspect is within the range.

    Args:
      area: smallest and largest part, as fractions of the image's area; uniform.
      aspect: smallest and largest width / height; its logarithm is uniform.

    Returns:
      A function of the image's height and width, int64 [2], to (top, left, height, width), int32 [4].
    """

    def box(size: tf.Tensor) -> tf.Tensor:
        return random_parts(tries(draws)[None], size[None], area=area, aspect=aspect)[0]

    return box


def tries(draws: Draws) -> tf.Tensor:
    """What a crop is drawn from: float32 [_TRIES + 1, 2]."""
    return draws.table("crop", _TRIES + 1, 2)


def random_parts(
    drawn: tf.Tensor, sizes: tf.Tensor, *, area: tuple[float, float], aspect: tuple[float, float]
) -> tf.Tensor:
    """Parts of n images as `random_box` draws them: int32 [n, 4] (top, left, height, width).

    Args:
      drawn: what `tries` gives for each image, float32 [n, _TRIES + 1, 2].
      sizes: heights and widths, int64 [n, 2].
    """
    most = tf.cast(sizes, tf.float32)[:, None]  # (n, 1, 2)
    shapes = tf.concat([_sides(drawn[:, :_TRIES], most, area, aspect), _middle(most, aspect)], axis=1)
    fits = tf.reduce_all((shapes >= 1.0) & (shapes <= most), axis=2)  # (n, _TRIES + 1)
    first = tf.argmax(fits, axis=1, output_type=tf.int32)
    sides = tf.gather(shapes, first, axis=1, batch_dims=1)  # (n, 2)
    left_over = most[:, 0] - sides
    in_the_middle = first[:, None] == _TRIES
    corner = tf.where(in_the_middle, left_over / 2.0, drawn[:, _TRIES] * (left_over + 1.0))  # cut off below
    return tf.cast(tf.concat([corner, sides], axis=1), tf.int32)


def _sides(
    drawn: tf.Tensor, most: tf.Tensor, area: tuple[float, float], aspect: tuple[float, float]
) -> tf.Tensor:
    """Heights and widths, whole float32 [n, tries, 2], for random numbers of this shape.

    An image may be smaller: its size is `most`, float32 [n, 1, 2].
    """
    least = [area[0], math.log(aspect[0]) / 2]
    span = [area[1] - area[0], math.log(aspect[1] / aspect[0]) / 2]
    fraction, half_log = tf.unstack(drawn * span + least, axis=2)  # (n, tries)
    side, stretch = tf.sqrt(fraction * most[..., 0] * most[..., 1]), _exp(half_log)
    return tf.round(tf.stack([side / stretch, side * stretch], axis=2))


def _middle(most: tf.Tensor, aspect: tuple[float, float]) -> tf.Tensor:
    """Heights and widths, float32 [n, 1, 2], of the largest part whose aspect is within the range."""
    return tf.clip_by_value(tf.round(most[..., ::-1] * [1.0 / aspect[0], aspect[1]]), 1.0, most)


def _exp(values: tf.Tensor) -> tf.Tensor:
    """Of values [n, tries], the same bits for any n: what fills no vector is computed in another way."""
    padded = tf.pad(values, [[0, 0], [0, -values.shape[1] % _VECTOR]])
    return tf.exp(padded)[:, : values.shape[1]]
