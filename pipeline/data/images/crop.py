"""Random resized crops: which part of its image a training example shows."""

import tensorflow as tf

from pipeline.data.images.decoding import Box
from pipeline.data.images.keyed_random import Draws

_ATTEMPTS = 10  # to draw an area and aspect that fit into the image; after that, the whole image


def random_box(draws: Draws, *, area: tuple[float, float], aspect: tuple[float, float]) -> Box:
    """Draws the part of an image to show, as in Szegedy et al. 2015, "Going Deeper with Convolutions".

    Args:
      area: smallest and largest part, as fractions of the image's area; uniform.
      aspect: smallest and largest width / height; uniform.

    Returns:
      A function of the image's height and width, int64 [2], to (top, left, height, width), int32 [4].
    """

    def box(size: tf.Tensor) -> tf.Tensor:
        begin, length, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.concat([size, [1]], axis=0),
            tf.zeros([0, 0, 4]),
            draws.key("crop"),
            min_object_covered=0.0,
            aspect_ratio_range=aspect,
            area_range=area,
            max_attempts=_ATTEMPTS,
            use_image_if_no_bounding_boxes=True,
        )
        return tf.cast(tf.concat([begin[:2], length[:2]], axis=0), tf.int32)

    return box
