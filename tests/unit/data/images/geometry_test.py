"""Affine maps give the pixels that Pillow's give, rounded; drawn amounts are uniform."""

import math

import numpy as np
import PIL.Image
import pytest
import scipy.ndimage
import scipy.stats
import tensorflow as tf

from pipeline.data.images import rand_augment
from pipeline.data.images.pixels import Draws
from tests.shared.hostile_pictures import hostile_pictures
from tests.shared.pictures import noise

ANGLE = math.radians(20)
MAPS = {
    "turned": ([[math.cos(ANGLE), -math.sin(ANGLE)], [math.sin(ANGLE), math.cos(ANGLE)]], (0.0, 0.0)),
    "shrunk": ([[1.25, 0.0], [0.0, 1.25]], (0.0, 0.0)),
    "enlarged": ([[0.8, 0.0], [0.0, 0.8]], (0.0, 0.0)),
    "sheared": ([[1.0, 0.3], [0.0, 1.0]], (0.0, 0.0)),
    "shifted": ([[1.0, 0.0], [0.0, 1.0]], (2.4, -1.7)),
    "all at once": ([[0.9, -0.2], [0.3, 1.1]], (1.5, 0.6)),
}
BORDER = 40


def by_pillow(pixels: np.ndarray, matrix: list, shift: tuple) -> np.ndarray:
    """Inside a black border, beyond whose inner edge Pillow interpolates; it cuts levels off."""
    matrix, size = np.array(matrix), np.array(pixels.shape[1::-1])
    middle = size / 2 + BORDER  # of a picture whose pixels begin at 0, and have their centres at a half
    offset = middle - matrix @ (middle + shift)
    rows = (*matrix[0], offset[0], *matrix[1], offset[1])
    framed = PIL.Image.fromarray(np.pad(pixels, [(BORDER, BORDER), (BORDER, BORDER), (0, 0)]))
    moved = framed.transform(framed.size, PIL.Image.Transform.AFFINE, rows, PIL.Image.Resampling.BILINEAR)
    return np.asarray(moved)[BORDER:-BORDER, BORDER:-BORDER]


def exact(pixels: np.ndarray, matrix: list, shift: tuple) -> np.ndarray:
    """By SciPy, in float64, whose axes are (y, x)."""
    matrix, middle = np.array(matrix)[::-1, ::-1], (np.array(pixels.shape[:2]) - 1) / 2
    offset = middle - matrix @ (middle + shift[::-1])
    return np.stack(
        [
            scipy.ndimage.affine_transform(plane, matrix, offset, order=1, mode="grid-constant")
            for plane in np.moveaxis(pixels.astype(float), 2, 0)
        ],
        axis=2,
    )


@pytest.mark.parametrize("map_", MAPS)
def test_pixels_are_those_of_pillow_and_rounded(map_):
    matrix, shift = MAPS[map_]
    for name, pixels in hostile_pictures().items():
        found = rand_augment.affine(tf.constant(pixels), matrix, shift=shift).numpy().astype(float)
        np.testing.assert_allclose(found, by_pillow(pixels, matrix, shift), atol=1, err_msg=name)
        np.testing.assert_allclose(found, exact(pixels, matrix, shift), atol=0.51, err_msg=name)


def test_a_map_makes_a_picture_neither_darker_nor_brighter():
    pixels = noise(64, 64, 3)
    matrix, shift = MAPS["turned"]
    found = rand_augment.affine(tf.constant(pixels), matrix, shift=shift).numpy().astype(float)
    assert abs((found - exact(pixels, matrix, shift)).mean()) < 0.01


def test_a_move_turns_and_scales_about_the_centre_then_shifts_by_uniform_amounts(monkeypatch):
    """Its map, for many positions, gives the amounts back."""
    asked = []
    monkeypatch.setattr(rand_augment, "affine", lambda image, matrix, *, shift: asked.append((matrix, shift)))
    image = tf.zeros([20, 40, 1], tf.uint8)
    for index in range(1_000):
        draws = Draws(seed=0, index=tf.constant(index, tf.int64))
        rand_augment.move(image, draws, shift=0.25, rotate_degrees=30.0, zoom=0.2)
    matrices = np.array([matrix for matrix, _ in asked])
    shifts = np.array([shift for _, shift in asked])
    scale = 1 / np.hypot(matrices[:, 0, 0], matrices[:, 1, 0])
    degrees = np.degrees(np.arctan2(matrices[:, 1, 0], matrices[:, 0, 0]))
    for values, limits in (
        (scale, (0.8, 1.2)),
        (degrees, (-30, 30)),
        (shifts[:, 0], (-10, 10)),
        (shifts[:, 1], (-5, 5)),
    ):
        assert (
            scipy.stats.kstest(values, scipy.stats.uniform(limits[0], limits[1] - limits[0]).cdf).pvalue
            > 1e-3
        )
