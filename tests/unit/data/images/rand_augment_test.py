"""Each operation of RandAugment does what Pillow's does, and each is drawn."""

from collections.abc import Callable

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import PIL.ImageOps
import pytest
import scipy.stats
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.images import rand_augment
from pipeline.data.images.pixels import Draws
from tests.shared.hostile_pictures import hostile_pictures
from tests.shared.pictures import noise

AMOUNTS = [0.0, 1 / 3, 0.5, 0.9, 1.0]


def enhanced(enhancer: type) -> Callable:
    return lambda picture, amount: enhancer(picture).enhance(1 + 0.9 * amount)


BY_PILLOW = {
    "identity": lambda picture, amount: picture,
    "auto_contrast": lambda picture, amount: PIL.ImageOps.autocontrast(picture),
    "equalize": lambda picture, amount: PIL.ImageOps.equalize(picture),
    "solarize": lambda picture, amount: PIL.ImageOps.solarize(picture, round(255 * (1 - abs(amount)), 6)),
    "posterize": lambda picture, amount: PIL.ImageOps.posterize(picture, 8 - round(4 * abs(amount))),
    "brightness": enhanced(PIL.ImageEnhance.Brightness),
    "contrast": enhanced(PIL.ImageEnhance.Contrast),
    "saturation": enhanced(PIL.ImageEnhance.Color),
    "sharpness": enhanced(PIL.ImageEnhance.Sharpness),
}
EXACT = ("identity", "equalize", "solarize", "posterize")


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("name", BY_PILLOW)
def test_operations_do_what_pillows_do(name, sign):
    operation = getattr(rand_augment, name)
    for picture, pixels in hostile_pictures().items():
        for amount in AMOUNTS:
            expected = np.asarray(BY_PILLOW[name](PIL.Image.fromarray(pixels), sign * amount))
            changed = operation(tf.constant(pixels), tf.constant(sign * amount)).numpy().astype(int)
            levels = 0 if name in EXACT else 1
            np.testing.assert_allclose(changed, expected, atol=levels, err_msg=f"{picture}, {amount}")


@pytest.mark.parametrize("name", BY_PILLOW)
def test_operations_do_to_grey_what_pillows_do(name):
    grey = 30 + noise(12, 14) // 2
    if name != "saturation":  # which grey has none of
        expected = np.asarray(BY_PILLOW[name](PIL.Image.fromarray(grey), 0.5))
        changed = getattr(rand_augment, name)(tf.constant(grey[..., None]), tf.constant(0.5))
        np.testing.assert_allclose(changed.numpy()[..., 0].astype(int), expected, atol=1)


def moved_by_pillow(pixels: np.ndarray, *rows: float) -> np.ndarray:
    """By a map of coordinates that begin at the outer corner; a black border counts as outside."""
    (xx, xy, x), (yx, yy, y) = rows[:3], rows[3:]
    framed = PIL.Image.fromarray(np.pad(pixels, [(99, 99), (99, 99), (0, 0)]))
    shifted = (xx, xy, x + 99 - 99 * (xx + xy), yx, yy, y + 99 - 99 * (yx + yy))
    moved = framed.transform(framed.size, PIL.Image.Transform.AFFINE, shifted, PIL.Image.Resampling.BILINEAR)
    return np.asarray(moved)[99:-99, 99:-99].astype(int)


@pytest.mark.parametrize("amount", [-1.0, -0.5, 0.3, 1.0])
def test_moves_are_those_of_autoaugment(amount):
    """Shears are about the corner, turns about the centre; shifts are of whole pixels, 150 in 331 at most."""
    for pixels in (noise(20, 33, 3), noise(1, 33, 3)):
        height, width = pixels.shape[:2]
        right, down = int(amount * 150 / 331 * width), int(amount * 150 / 331 * height)
        expected = {
            "shear_x": moved_by_pillow(pixels, 1, 0.3 * amount, 0, 0, 1, 0),
            "shear_y": moved_by_pillow(pixels, 1, 0, 0, 0.3 * amount, 1, 0),
            "shift_x": moved_by_pillow(pixels, 1, 0, -right, 0, 1, 0),
            "shift_y": moved_by_pillow(pixels, 1, 0, 0, 0, 1, -down),
        }
        framed = PIL.Image.fromarray(np.pad(pixels, [(99, 99), (99, 99), (0, 0)]))
        turned = framed.rotate(30 * amount, PIL.Image.Resampling.BILINEAR)  # to the left
        expected["rotate"] = np.asarray(turned)[99:-99, 99:-99].astype(int)
        for name, wanted in expected.items():
            found = getattr(rand_augment, name)(tf.constant(pixels), tf.constant(amount)).numpy().astype(int)
            np.testing.assert_allclose(found, wanted, atol=1, err_msg=name)


def test_every_whole_threshold_of_solarize_is_met():
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    for magnitude in range(31):
        changed = rand_augment.solarize(tf.constant(ramp), tf.constant(magnitude / 30)).numpy()
        np.testing.assert_array_equal(changed, np.where(ramp >= 255 - 8.5 * magnitude, 255 - ramp, ramp))


def test_operations_and_directions_are_drawn_evenly():
    drawn = tf.function(lambda index: rand_augment.drawn(Draws(seed=0, index=index), 1), autograph=False)
    found = np.array([drawn(tf.constant(index, tf.int64)) for index in range(2_800)])
    for direction in (-1, 1):
        counts = np.bincount(found[found[:, 1] == direction, 0].astype(int), minlength=14)
        assert len(counts) == 14
        assert scipy.stats.chisquare(counts, np.full(14, 100 * counts.sum() / 1_400)).pvalue > 1e-3
    assert scipy.stats.binomtest(int((found[:, 1] == 1).sum()), 2_800).pvalue > 1e-3


@pytest.mark.parametrize(("channels", "outcomes"), [(3, 23), (1, 21)])  # grey has no saturation
def test_every_operation_is_drawn_in_every_direction_that_it_has(channels, outcomes):
    pixels = tf.constant(30 + noise(20, 20, channels) // 2)  # enough for equalize to change it
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
