"""Colours move as Pillow and Python's colorsys move them."""

import colorsys

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import pytest
import tensorflow as tf

from pipeline.data.images import rand_augment
from tests.shared.hostile_pictures import hostile_pictures
from tests.shared.pictures import noise

ENHANCERS = {
    "brightness": PIL.ImageEnhance.Brightness,
    "contrast": PIL.ImageEnhance.Contrast,
    "saturation": PIL.ImageEnhance.Color,
}


@pytest.mark.parametrize("name", ENHANCERS)
@pytest.mark.parametrize("factor", [0.0, 0.1, 0.6, 1.0, 1.4, 1.9, 2.0])
def test_factors_do_what_pillows_do(name, factor):
    for picture, pixels in hostile_pictures().items():
        expected = np.asarray(ENHANCERS[name](PIL.Image.fromarray(pixels)).enhance(factor))
        found = rand_augment.adjust(pixels, **{name: tf.constant(factor)}).numpy().astype(int)
        np.testing.assert_allclose(found, expected, atol=1, err_msg=picture)


@pytest.mark.parametrize("name", ["brightness", "contrast"])
def test_factors_do_to_grey_what_pillows_do(name):
    grey = noise(8, 9)
    expected = np.asarray(ENHANCERS[name](PIL.Image.fromarray(grey)).enhance(0.3))
    found = rand_augment.adjust(grey[..., None], **{name: 0.3}).numpy()[..., 0].astype(int)
    np.testing.assert_allclose(found, expected, atol=1)


def by_colorsys(pixels: np.ndarray, turns: float) -> np.ndarray:
    """In levels, unrounded."""
    hsv = [colorsys.rgb_to_hsv(*pixel) for pixel in pixels.reshape(-1, 3) / 255]
    rgb = [colorsys.hsv_to_rgb((hue + turns) % 1.0, saturation, value) for hue, saturation, value in hsv]
    return np.reshape(rgb, pixels.shape) * 255


@pytest.mark.parametrize("turns", [-0.5, -0.3, -0.01, 0.0, 0.1, 1 / 3, 0.5])
def test_hue_turns_the_circle_of_hsv(turns):
    for picture, pixels in hostile_pictures().items():
        found = rand_augment.adjust(pixels, hue=tf.constant(turns)).numpy()
        np.testing.assert_allclose(found, by_colorsys(pixels, turns), atol=0.51, err_msg=picture)


def test_all_four_are_applied_at_once_and_clipped_once_before_the_hue():
    pixels = noise(8, 9, 3)
    luma = pixels @ np.array([0.299, 0.587, 0.114])
    mean = np.floor(np.floor(luma + 0.5).mean() + 0.5)
    greyer = luma[..., None] + 0.5 * (pixels - luma[..., None])
    expected = np.clip(0.7 * (mean + 1.3 * (greyer - mean)), 0, 255)
    found = rand_augment.adjust(pixels, brightness=0.7, contrast=1.3, saturation=0.5, hue=0.2)
    np.testing.assert_allclose(found, by_colorsys(expected, 0.2), atol=0.52)


def test_grey_stays_grey_and_transparency_stays():
    grey = np.full((2, 2, 3), 80, np.uint8)
    np.testing.assert_allclose(
        rand_augment.adjust(grey, hue=0.3, saturation=1.8).numpy().astype(int), grey, atol=1
    )
    with_alpha = noise(4, 4, 4)
    adjusted = rand_augment.adjust(with_alpha, brightness=0.5, hue=0.2)
    np.testing.assert_array_equal(adjusted[..., 3], with_alpha[..., 3])
    np.testing.assert_array_equal(
        adjusted[..., :3], rand_augment.adjust(with_alpha[..., :3], brightness=0.5, hue=0.2)
    )


def test_values_are_rounded_and_kept_in_range():
    rounded = rand_augment.to_uint8(tf.constant([-3.0, 0.4, 0.6, 254.6, 300.0]))
    assert rounded.numpy().tolist() == [0, 0, 1, 255, 255]
