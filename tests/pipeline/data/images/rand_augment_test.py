"""Each operation of RandAugment does what Pillow's does, and each is drawn."""

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import PIL.ImageOps
import pytest
import tensorflow as tf

from pipeline.data.errors import InputError
from pipeline.data.images import rand_augment
from pipeline.data.images.keyed_random import Draws
from tests.shared.pictures import noise

PIXELS = 30 + noise(12, 14, 3) // 2  # leaves contrast to stretch
PICTURE = PIL.Image.fromarray(PIXELS)
HALF = np.float32(0.5)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (rand_augment.auto_contrast, PIL.ImageOps.autocontrast(PICTURE)),
        (rand_augment.solarize, PIL.ImageOps.solarize(PICTURE, 128)),
        (rand_augment.posterize, PIL.ImageOps.posterize(PICTURE, 6)),
        (rand_augment.brightness, PIL.ImageEnhance.Brightness(PICTURE).enhance(1.45)),
        (rand_augment.identity, PICTURE),
    ],
)
def test_operations_do_what_pillows_do(operation, expected):
    changed = operation(tf.constant(PIXELS), HALF).numpy().astype(int)
    np.testing.assert_allclose(changed, np.asarray(expected), atol=1)


def test_sharpness_leaves_flat_areas_and_widens_edges():
    edge = np.full((4, 6, 1), 100, np.uint8)
    edge[:, 3:] = 150
    sharper = rand_augment.sharpness(tf.constant(edge), HALF).numpy()[1, :, 0]
    assert sharper[[0, 5]].tolist() == [100, 150]
    assert sharper[2] < 100 and sharper[3] > 150


def test_equalize_spreads_levels_evenly():
    levels = np.repeat([10, 20, 30, 40], 9).astype(np.uint8).reshape(6, 6, 1)
    assert np.unique(rand_augment.equalize(tf.constant(levels), HALF)).tolist() == [0, 85, 170, 255]


@pytest.mark.parametrize("operation", [rand_augment.auto_contrast, rand_augment.equalize])
def test_an_image_of_one_level_stays(operation):
    flat = np.full((3, 3, 3), 77, np.uint8)
    np.testing.assert_array_equal(operation(tf.constant(flat), HALF), flat)


@pytest.mark.parametrize(
    ("operation", "axis", "sign"), [(rand_augment.shift_x, 1, 1), (rand_augment.shift_y, 0, -1)]
)
def test_shifts_move_along_their_axis(operation, axis, sign):
    pixels = noise(20, 20, 1)
    moved = operation(tf.constant(pixels), tf.constant(sign * 5 / 9 * 0.4)).numpy()  # 2 pixels of 20
    rolled = np.roll(pixels, -2 * sign, axis=axis)
    np.testing.assert_array_equal(moved[3:-3, 3:-3], rolled[3:-3, 3:-3])


@pytest.mark.parametrize(("channels", "outcomes"), [(3, 23), (1, 21)])  # grey has no saturation
def test_every_operation_is_drawn_in_every_direction_that_it_has(channels, outcomes):
    pixels = tf.constant(noise(8, 8, channels))
    apply = tf.function(
        lambda index: rand_augment.rand_augment(
            pixels, Draws(seed=0, index=index), operations=1, magnitude=9.0
        )
    )
    seen = {apply(tf.constant(index, tf.int64)).numpy().tobytes() for index in range(300)}
    assert len(seen) == outcomes


def test_transparency_is_refused():
    with pytest.raises(InputError, match="received an image of 4 channels"):
        rand_augment.rand_augment(
            tf.zeros([2, 2, 4], tf.uint8),
            Draws(seed=0, index=tf.constant(0, tf.int64)),
            operations=1,
            magnitude=1.0,
        )
