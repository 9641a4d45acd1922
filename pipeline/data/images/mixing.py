"""Mixes training images in pairs: as wholes (mixup), or with a box of the one put into the other (cutmix).

H. Zhang and others, "mixup: Beyond Empirical Risk Minimization" (2018); S. Yun and others, "CutMix" (2019).
Both draw the share of an image from Beta(α, α). Here each two neighbours in the training stream, whose order
is random, are mixed with each other: what comes of a pair is a pure function of (seed, its position).
"""

import functools

import numpy as np
import scipy.stats
import tensorflow as tf

from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.keyed_random import Draws

_QUANTILES = 4_096  # between which a share is interpolated
_LEAST_ALPHA = 1e-6  # of which all of them are 0 or 1, as of a smaller one; SciPy has none of 1e-308


def mixed_pair(
    images: tf.Tensor, first: tf.Tensor, *, augmentation: Augmentation, seed: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Two images, each mixed with the other, and how much of itself each still is.

    Args:
      images: uint8 [2, height, width, channels].
      first: int64 [], the position of the first one in the training stream.
      augmentation: `mixup`, `cutmix` or both are above 0; with both a pair has one or the other, half each.

    Returns:
      uint8 [2, height, width, channels], rounded; and the share, float32 [], from 0 to 1.
    """
    draws = Draws(seed=seed, index=first)
    which, of_share = draws.uniform("mix", 2)
    mixup, cutmix = augmentation.mixup, augmentation.cutmix
    if mixup and cutmix:
        return tf.cond(
            which < 0.5,
            lambda: _blended(images, _share(of_share, alpha=mixup)),
            lambda: _boxed(images, _share(of_share, alpha=cutmix), draws),
        )
    share = _share(of_share, alpha=mixup or cutmix)
    return _blended(images, share) if mixup else _boxed(images, share, draws)


def _blended(images: tf.Tensor, share: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    pixels = tf.cast(images, tf.float32)
    mixed = share * pixels + (1.0 - share) * _others(pixels)
    return tf.cast(tf.round(mixed), tf.uint8), share


def _boxed(images: tf.Tensor, share: tf.Tensor, draws: Draws) -> tuple[tf.Tensor, tf.Tensor]:
    """The box has the paper's form. Its centre may be anywhere; what stands out of the image is cut off."""
    height, width = images.shape[1:3]
    row, column = draws.uniform("box", 2)
    side = tf.sqrt(1.0 - share)
    rows, columns = _within(row, side, height), _within(column, side, width)
    is_box = rows[:, None] & columns[None, :]  # (height, width)
    left = 1.0 - tf.reduce_mean(tf.cast(is_box, tf.float32))  # what is cut off counts for the image itself
    # In two dimensions `tf.where` takes a third of its time in four, or less.
    flat = tf.reshape(images, [2, -1])
    of_values = tf.repeat(tf.reshape(is_box, [-1]), images.shape[3])
    return tf.reshape(tf.where(of_values, _others(flat), flat), images.shape), left


def _others(images: tf.Tensor) -> tf.Tensor:
    """Of a pair, [2, …], the other one of each; a slice that steps back takes 80 times as long."""
    return tf.gather(images, [1, 0])


def _within(centre: tf.Tensor, side: tf.Tensor, size: int) -> tf.Tensor:
    """Which of `size` pixels are in a box around `centre`, a fraction of them: bool [size]."""
    pixels, middle = tf.range(size), tf.cast(centre * size, tf.int32)
    half = tf.cast(side * size, tf.int32) // 2
    return (pixels >= middle - half) & (pixels < middle + half)


def _share(uniform: tf.Tensor, *, alpha: float) -> tf.Tensor:
    """A number of Beta(α, α) for one in [0, 1): its quantile, interpolated; float32 []."""
    table = tf.constant(_quantiles(alpha))
    place = uniform * (_QUANTILES - 1)
    below = tf.minimum(tf.cast(place, tf.int32), _QUANTILES - 2)
    part = place - tf.cast(below, tf.float32)
    return (1.0 - part) * table[below] + part * table[below + 1]


@functools.cache
def _quantiles(alpha: float) -> np.ndarray:
    """float32 [_QUANTILES], rising from 0 to 1."""
    alpha = max(alpha, _LEAST_ALPHA)
    return scipy.stats.beta.ppf(np.linspace(0, 1, _QUANTILES), alpha, alpha).astype(np.float32)
