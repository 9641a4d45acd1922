"""Each operation does what that of Pillow does, to colours and to geometry, and each is drawn."""

import colorsys
import math
from collections.abc import Callable

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import PIL.ImageOps
import pytest
import scipy.ndimage
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
        ),
        autograph=False,
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


# Colours move as Pillow and Python's colorsys move them.
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


# Affine maps give the pixels that Pillow's give, rounded; drawn amounts are uniform.
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
