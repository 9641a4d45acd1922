"""Colours move as Pillow and TensorFlow move them."""

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import pytest
import tensorflow as tf

from pipeline.data.images import colour
from tests.shared.pictures import noise

PIXELS = noise(8, 9, 3)
ENHANCERS = {
    "brightness": PIL.ImageEnhance.Brightness,
    "contrast": PIL.ImageEnhance.Contrast,
    "saturation": PIL.ImageEnhance.Color,
}


@pytest.mark.parametrize("name", ENHANCERS)
@pytest.mark.parametrize("factor", [0.0, 0.6, 1.0, 1.4])
def test_factors_do_what_pillows_do(name, factor):
    expected = np.asarray(ENHANCERS[name](PIL.Image.fromarray(PIXELS)).enhance(factor))
    np.testing.assert_allclose(colour.adjust(PIXELS, **{name: factor}).numpy().astype(int), expected, atol=1)


def test_hue_turns_the_circle_of_colours():
    red = np.full((1, 1, 3), (150, 90, 90), np.uint8)
    assert colour.adjust(red, hue=1 / 3).numpy().argmax() == 1
    assert colour.adjust(red, hue=-1 / 3).numpy().argmax() == 2
    np.testing.assert_allclose(colour.adjust(red, hue=1.0).numpy().astype(int), red, atol=1)


def test_grey_stays_grey_and_transparency_stays():
    grey = np.full((2, 2, 3), 80, np.uint8)
    np.testing.assert_allclose(colour.adjust(grey, hue=0.3, saturation=1.8).numpy().astype(int), grey, atol=1)
    with_alpha = noise(4, 4, 4)
    adjusted = colour.adjust(with_alpha, brightness=0.5, hue=0.2)
    np.testing.assert_array_equal(adjusted[..., 3], with_alpha[..., 3])
    np.testing.assert_array_equal(
        adjusted[..., :3], colour.adjust(with_alpha[..., :3], brightness=0.5, hue=0.2)
    )


def test_values_are_rounded_and_kept_in_range():
    rounded = colour.to_uint8(tf.constant([-3.0, 0.4, 0.6, 254.6, 300.0]))
    assert rounded.numpy().tolist() == [0, 0, 1, 255, 255]
