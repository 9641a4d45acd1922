"""Random resized crops: which part of its image a training example shows."""

import tensorflow as tf

from pipeline.data.draws import Draws
from pipeline.data.images import Box

ATTEMPTS = 10  # at a part of the drawn area and aspect that fits in; then the whole image


def random_box(draws: Draws, *, area: tuple[float, float], aspect: tuple[float, float]) -> Box:
    """Draws a part of an image, as Szegedy et al. 2015, "Going Deeper with Convolutions", train on.

    Args:
      area: smallest and largest part, as fractions of the image's area; uniform.
      aspect: smallest and largest width / height; uniform.
    """

    def box(size: tf.Tensor) -> tf.Tensor:
        begin, length, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.concat([size, [1]], axis=0),
            tf.zeros([0, 0, 4]),
            draws.key("crop"),
            min_object_covered=0.0,
            aspect_ratio_range=aspect,
            area_range=area,
            max_attempts=ATTEMPTS,
            use_image_if_no_bounding_boxes=True,
        )
        return tf.cast(tf.concat([begin[:2], length[:2]], axis=0), tf.int32)

    return box
