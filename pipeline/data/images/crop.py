"""Random resized crops: the part of its image that a training example shows, and reading it from a JPEG."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from pipeline.base.tracing import tf_function
from pipeline.data.images.pixels import Draws

# Function of an image's height and width, int64 [2]; returns the part to cut out, int32 [4] (top, left,
# height, width).
Box = Callable[[tf.Tensor], tf.Tensor]

_RATIOS = (1, 2, 4, 8)  # a JPEG decoder can divide both sides by these
# With it, pixels equal Pillow's bit for bit; TensorFlow's default is off by up to 5 levels, and no faster.
DCT_METHOD = "INTEGER_ACCURATE"

_VECTOR = 16  # the most numbers with which a processor calculates at once
_TRIES = 10  # tries to draw an area and aspect that fit into the image


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
    """The random numbers of a crop: float32 [_TRIES + 1, 2]."""
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
    # The cast cuts off the fraction.
    corner = tf.where(in_the_middle, left_over / 2.0, drawn[:, _TRIES] * (left_over + 1.0))
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
    """exp of values [n, tries], with the same bits for any n: numbers that do not fill a vector would be
    computed in another way.
    """
    padded = tf.pad(values, [[0, 0], [0, -values.shape[1] % _VECTOR]])
    return tf.exp(padded)[:, : values.shape[1]]


class JpegPart(NamedTuple):
    """The window of a JPEG to decode, and the pixels to take from it. Shapes are for one image."""

    shrink: tf.Tensor  # int32 [], the index in _RATIOS of the number that both sides are divided by
    window: tf.Tensor  # int32 [4], top, left, height and width of what is decoded
    begin: tf.Tensor  # int32 [3], where the wanted pixels begin in it
    extent: tf.Tensor  # int32 [3], the height, width and channels of these pixels; -1 means all channels


def jpeg_part(part: tf.Tensor, size: tf.Tensor, *, times: tf.Tensor) -> JpegPart:
    """The part, int32 [..., 4] (top, left, height, width), of images of these sizes, int32 [..., 2].

    It is decoded with a pixel more on each side, as far as there is one. Where colour is stored in fewer
    pixels than brightness, libjpeg needs neighbours: at the edge of the part, pixels would be up to 15 levels
    off.

    Args:
      times: int32 [...], how many times larger the part is than the wanted size; both sides are divided by
        the largest of _RATIOS that is not above it.
    """
    shrink = tf.maximum(tf.reduce_sum(tf.cast(times[..., None] >= _RATIOS, tf.int32), axis=-1) - 1, 0)
    ratio = tf.gather(_RATIOS, shrink)[..., None]
    part, size = part // ratio, -(-size // ratio)
    first = tf.maximum(part[..., :2] - 1, 0)
    end = tf.minimum(part[..., :2] + part[..., 2:] + 1, size)
    all_channels = tf.zeros_like(shrink)[..., None]
    return JpegPart(
        shrink=shrink,
        window=tf.concat([first, end - first], axis=-1),
        begin=tf.concat([part[..., :2] - first, all_channels], axis=-1),
        extent=tf.concat([part[..., 2:], all_channels - 1], axis=-1),
    )


def times_larger(part: tf.Tensor, wanted: Sequence[int]) -> tf.Tensor:
    """The factor by which parts, int32 [..., 4], exceed the wanted (height, width, …): int32 [...]."""
    return tf.reduce_min(part[..., 2:] // wanted[:2], axis=-1)


def decode_part(data: tf.Tensor, part: JpegPart, *, channels: int, shrinks: bool = True) -> tf.Tensor:
    """The part of a JPEG, string [], as if it were cut out of the whole: uint8 [height, width, channels].

    Args:
      shrinks: whether the sides of the part may be divided; the branch for that takes longer than the cut.
    """

    def read(ratio: int) -> tf.Tensor:
        return tf.io.decode_and_crop_jpeg(
            data, part.window, channels=channels, ratio=ratio, dct_method=DCT_METHOD
        )

    def shrunk() -> tf.Tensor:
        return tf.switch_case(part.shrink, [functools.partial(read, ratio) for ratio in _RATIOS])

    pixels = tf.cond(tf.equal(part.shrink, 0), lambda: read(1), tf_function(shrunk)) if shrinks else read(1)
    return tf.slice(pixels, part.begin, part.extent)
