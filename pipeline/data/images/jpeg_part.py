"""Parts of JPEGs, decoded alone and at a fraction of their size; planned for one image or for many."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from pipeline.data.tracing import apart

_RATIOS = (1, 2, 4, 8)  # a JPEG decoder can divide both sides by these
# Bit for bit what Pillow reads; TensorFlow's default is off by up to 5 levels, and no faster.
DCT_METHOD = "INTEGER_ACCURATE"


class JpegPart(NamedTuple):
    """What is decoded, and which of these pixels are wanted; shapes are those of one image."""

    shrink: tf.Tensor  # int32 [], which of _RATIOS both sides are divided by
    window: tf.Tensor  # int32 [4], top, left, height and width of what is decoded
    begin: tf.Tensor  # int32 [3] and
    extent: tf.Tensor  # int32 [3], of what is wanted in it; -1 means all channels


def of(part: tf.Tensor, size: tf.Tensor, *, times: tf.Tensor) -> JpegPart:
    """The part, int32 [..., 4] (top, left, height, width), of images of these sizes, int32 [..., 2].

    It is decoded with a pixel more on each side, as far as there is one. Where colour is stored in fewer
    pixels than light, libjpeg knows no neighbours beyond the part: its edge would be up to 15 levels off.

    Args:
      times: int32 [...], how many times larger it is than what is wanted: the largest of _RATIOS up to that
        divides both sides.
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
    """How many times larger parts, int32 [..., 4], are than the wanted (height, width, …): int32 [...]."""
    return tf.reduce_min(part[..., 2:] // wanted[:2], axis=-1)


def decode(data: tf.Tensor, part: JpegPart, *, channels: int) -> tf.Tensor:
    """The part of a JPEG, string [], as if it were cut out of the whole: uint8 [height, width, channels]."""

    def read(ratio: int) -> tf.Tensor:
        return tf.io.decode_and_crop_jpeg(
            data, part.window, channels=channels, ratio=ratio, dct_method=DCT_METHOD
        )

    def shrunk() -> tf.Tensor:
        return tf.switch_case(part.shrink, [functools.partial(read, ratio) for ratio in _RATIOS])

    pixels = tf.cond(tf.equal(part.shrink, 0), lambda: read(1), apart(shrunk))
    return tf.slice(pixels, part.begin, part.extent)
