"""Random resized crops: which part of its image a training example shows."""

import math

import tensorflow as tf

from pipeline.data.images.decoding import Box
from pipeline.data.images.keyed_random import Draws

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
        most = tf.cast(size, tf.float32)
        drawn = draws.table("crop", _TRIES + 1, 2)
        tries, place = drawn[:_TRIES], drawn[_TRIES]
        sides = tf.concat([_sides(tries, most, area, aspect), [_middle(most, aspect)]], axis=0)
        fits = tf.reduce_all((sides >= 1.0) & (sides <= most), axis=1)
        first = tf.argmax(fits, output_type=tf.int32)
        left_over = most - sides[first]
        corner = tf.where(first < _TRIES, place * (left_over + 1.0), left_over / 2.0)  # cut off below
        return tf.cast(tf.concat([corner, sides[first]], axis=0), tf.int32)

    return box


def _sides(
    tries: tf.Tensor, most: tf.Tensor, area: tuple[float, float], aspect: tuple[float, float]
) -> tf.Tensor:
    """Heights and widths, whole float32 [n, 2], for random numbers [n, 2]; the image may be smaller."""
    least = [area[0], math.log(aspect[0]) / 2]
    span = [area[1] - area[0], math.log(aspect[1] / aspect[0]) / 2]
    fraction, half_log = tf.unstack(tries * span + least, axis=1)
    side, stretch = tf.sqrt(fraction * most[0] * most[1]), tf.exp(half_log)
    return tf.round(tf.stack([side / stretch, side * stretch], axis=1))


def _middle(most: tf.Tensor, aspect: tuple[float, float]) -> tf.Tensor:
    """Height and width, float32 [2], of the largest part whose aspect is within the range."""
    return tf.clip_by_value(tf.round(most[::-1] * [1.0 / aspect[0], aspect[1]]), 1.0, most)
