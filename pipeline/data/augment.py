"""Random shifts, turns, zooms and flips of image batches that depend on nothing but (seed, index).

Stateful random operations in a parallel map give other pixels on every run; here each draw is a keyed hash
of the example's index in the training stream, so a resumed run sees the same pixels.
"""

import dataclasses
import math

import tensorflow as tf

from pipeline.data.errors import InputError

RESOLUTION = 1 << 24  # as many steps as a float32 in [0, 1) can tell apart


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmentation:
    """How far an image may be moved; all 0 and False: not at all."""

    shift: float = 0.0  # largest shift, as a fraction of the side
    rotate_degrees: float = 0.0  # largest turn either way
    zoom: float = 0.0  # largest change of scale: 0.1 means 0.9 to 1.1
    flip: bool = False  # left to right, half of the time

    def __post_init__(self) -> None:
        for name, limit in (("shift", 1.0), ("rotate_degrees", 180.0), ("zoom", 0.9)):
            value = getattr(self, name)
            if not 0.0 <= value <= limit:
                raise InputError(
                    f"augmentation '{name}'",
                    received=value,
                    expected=f"a number from 0 to {limit:g}",
                    action=f"Correct --config.augmentation.{name}.",
                )

    @property
    def does_nothing(self) -> bool:
        return self == Augmentation()


def augment_images(
    images: tf.Tensor, index: tf.Tensor, *, augmentation: Augmentation, seed: int
) -> tf.Tensor:
    """Moves each image by its own random amount.

    Args:
      images: uint8 [batch, height, width, channels].
      index: int64 [batch], each example's place in the training stream.

    Returns:
      uint8, same shape. What moves in from outside is black.
    """
    if augmentation.does_nothing:
        return images
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=_transforms(tf.shape(images), index, augmentation, seed),
        output_shape=tf.shape(images)[1:3],
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )


def _transforms(shape: tf.Tensor, index: tf.Tensor, augmentation: Augmentation, seed: int) -> tf.Tensor:
    """Affine maps from output to input pixels about the image's centre: float32 [batch, 8].

    Rows are (a0, a1, a2, b0, b1, b2, 0, 0): x_in = a0 x + a1 y + a2, y_in = b0 x + b1 y + b2.
    """
    height, width = tf.cast(shape[1], tf.float32), tf.cast(shape[2], tf.float32)
    angle = math.radians(augmentation.rotate_degrees) * _symmetric(index, seed, draw=0)
    scale = 1.0 / (1.0 + augmentation.zoom * _symmetric(index, seed, draw=1))
    shift_x = augmentation.shift * width * _symmetric(index, seed, draw=2)
    shift_y = augmentation.shift * height * _symmetric(index, seed, draw=3)
    flips = augmentation.flip & (_symmetric(index, seed, draw=4) < 0.0)
    mirror = tf.where(flips, -1.0, 1.0)
    cosine, sine = tf.cos(angle) * scale, tf.sin(angle) * scale
    a0, a1, b0, b1 = cosine * mirror, -sine, sine * mirror, cosine
    centre_x, centre_y = (width - 1.0) / 2.0, (height - 1.0) / 2.0
    a2 = centre_x - a0 * centre_x - a1 * centre_y + shift_x
    b2 = centre_y - b0 * centre_x - b1 * centre_y + shift_y
    zero = tf.zeros_like(angle)
    return tf.stack([a0, a1, a2, b0, b1, b2, zero, zero], axis=1)


def _symmetric(index: tf.Tensor, seed: int, *, draw: int) -> tf.Tensor:
    """Uniform numbers in [-1, 1), float32 [batch], by SipHash of the index keyed with (seed, draw)."""
    hashed = tf.strings.to_hash_bucket_strong(tf.strings.as_string(index), RESOLUTION, key=[seed, draw])
    return tf.cast(hashed, tf.float32) * (2.0 / RESOLUTION) - 1.0
