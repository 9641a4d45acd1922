"""Crops are drawn as torchvision's RandomResizedCrop draws them, whose algorithm stands here in NumPy."""

import functools

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from pipeline.data.images.crop import random_box
from pipeline.data.images.pixels import Draws

COUNT = 3_000
USUAL = ((0.08, 1.0), (3 / 4, 4 / 3))


def boxes(height: int, width: int, *, area: tuple, aspect: tuple, count: int = COUNT) -> np.ndarray:
    """Of the first positions of a stream: int32 [count, 4] (top, left, height, width)."""

    def one(index: tf.Tensor) -> tf.Tensor:
        return random_box(Draws(seed=3, index=index), area=area, aspect=aspect)(
            tf.constant([height, width], tf.int64)
        )

    drawn = tf.data.Dataset.range(count).map(tf.autograph.experimental.do_not_convert(one)).batch(count)
    return next(iter(drawn)).numpy()


@functools.cache
def reference(height: int, width: int, *, area: tuple, aspect: tuple) -> np.ndarray:
    """RandomResizedCrop.make_params of torchvision 0.28, with NumPy's random numbers."""
    draw, found = np.random.default_rng(0), []
    for _ in range(COUNT):
        for _ in range(10):
            target = height * width * draw.uniform(*area)
            ratio = np.exp(draw.uniform(*np.log(aspect)))
            w, h = round(np.sqrt(target * ratio)), round(np.sqrt(target / ratio))
            if 0 < w <= width and 0 < h <= height:
                top, left = draw.integers(0, height - h + 1), draw.integers(0, width - w + 1)
                break
        else:
            w, h = width, height
            if width / height < aspect[0]:
                h = round(width / aspect[0])
            elif width / height > aspect[1]:
                w = round(height * aspect[1])
            top, left = (height - h) // 2, (width - w) // 2
        found.append((top, left, h, w))
    return np.array(found)


@pytest.mark.parametrize(
    ("size", "area", "aspect"),
    [
        ((375, 500), *USUAL),
        ((500, 333), *USUAL),
        ((1000, 200), *USUAL),  # falls back now and then
        ((64, 64), (0.5, 0.9), (0.2, 3.0)),
    ],
)
def test_areas_aspects_and_places_are_distributed_as_torchvisions(size, area, aspect):
    found, wanted = boxes(*size, area=area, aspect=aspect), reference(*size, area=area, aspect=aspect)
    assert (found[:, :2] >= 0).all() and (found[:, :2] + found[:, 2:] <= size).all()
    for name, of in {
        "area": lambda box: box[:, 2] * box[:, 3],
        "aspect": lambda box: box[:, 3] / box[:, 2],
        "top": lambda box: box[:, 0],
        "left": lambda box: box[:, 1],
        "bottom": lambda box: size[0] - box[:, 0] - box[:, 2],
        "right": lambda box: size[1] - box[:, 1] - box[:, 3],
    }.items():
        assert scipy.stats.ks_2samp(of(found), of(wanted)).pvalue > 1e-3, name


def test_where_nothing_is_rejected_areas_and_logarithms_of_aspects_are_uniform():
    found = boxes(4000, 4000, area=(0.1, 0.5), aspect=(0.5, 2.0)).astype(float)
    area, log_aspect = found[:, 2] * found[:, 3] / 4000**2, np.log2(found[:, 3] / found[:, 2])
    assert scipy.stats.kstest(area, scipy.stats.uniform(0.1, 0.4).cdf).pvalue > 1e-3
    assert scipy.stats.kstest(log_aspect, scipy.stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert abs(scipy.stats.pearsonr(area, log_aspect).statistic) < 0.06


@pytest.mark.parametrize(
    ("size", "aspect", "box"),
    [
        ((1, 40), (3 / 4, 4 / 3), [0, 19, 1, 1]),
        ((40, 1), (3 / 4, 4 / 3), [19, 0, 1, 1]),
        ((30, 40), (3 / 4, 4 / 3), [0, 0, 30, 40]),
        ((30, 90), (3 / 4, 4 / 3), [0, 25, 30, 40]),
        ((90, 30), (3 / 4, 4 / 3), [25, 0, 40, 30]),
        ((1, 1), (5.0, 6.0), [0, 0, 1, 1]),
    ],
)
def test_what_fits_in_no_try_is_the_largest_part_in_the_middle(size, aspect, box):
    found = boxes(*size, area=(1.0, 1.0), aspect=aspect, count=40)
    assert box in found.tolist()
    if size not in ((30, 40), (1, 1)):  # there, a try may give the same
        np.testing.assert_array_equal(found, [box] * 40)


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (2, 3)])
def test_a_crop_of_a_thin_image_is_within_it(size):
    found = boxes(*size, area=USUAL[0], aspect=USUAL[1], count=200)
    assert (found[:, 2:] >= 1).all() and (found[:, :2] >= 0).all()
    assert (found[:, :2] + found[:, 2:] <= size).all()
