"""Training images: planned, changed as far as the config says, mixed, and the same on every run."""

import functools
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.base.tracing import for_each, no_autograph
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.decoding import decode_images
from pipeline.data.images.training_image import (
    CropPlan,
    augment_image,
    decode_planned,
    decode_training_image,
    mixed_pair,
    plan_crops,
)
from tests.conformance.pictures.subtypes import exif
from tests.shared.pictures import encode, noise, smooth
from tests.unit.data.images.training_images import naming_refused_images, training_image

Example = Callable[[tf.Tensor], tf.Tensor]
SHAPE = (16, 16, 3)
EVERYTHING = Augmentation(
    crop_area=(0.2, 1.0),
    flip=True,
    shift=0.1,
    rotate_degrees=10.0,
    zoom=0.1,
    brightness=0.4,
    contrast=0.4,
    saturation=0.4,
    hue=0.1,
    rand_augment=2,
)
FILES = [
    encode(noise(24, 30 + n, 3, seed=n), file_format) for n in range(8) for file_format in ("JPEG", "PNG")
]


def stream(
    *, start: int = 0, count: int = 48, parallel: int = 2, seed: int = 7, augmentation: Augmentation
) -> np.ndarray:
    """Images `start` to `start + count` of a training stream over FILES: [count, *SHAPE]."""
    return some(traced(augmentation, seed), start=start, count=count, parallel=parallel)


def some(example: Example, *, start: int, count: int, parallel: int) -> np.ndarray:
    images = tf.data.Dataset.range(start, start + count).map(
        no_autograph(example), num_parallel_calls=parallel
    )
    return np.stack(list(images.as_numpy_iterator()))


@functools.cache  # tracing takes far longer than the images
def traced(augmentation: Augmentation, seed: int) -> Example:
    def example(index: tf.Tensor) -> tf.Tensor:
        data = tf.constant(FILES)[index % len(FILES)]
        return training_image(data, index, shape=SHAPE, augmentation=augmentation, seed=seed)

    return tf.function(example, autograph=False, input_signature=[tf.TensorSpec([], tf.int64)])


def augmented(image: np.ndarray, count: int = 500, **changes: object) -> np.ndarray:
    """One image, changed in `count` ways: uint8 [count, height, width, channels]."""
    augmentation = Augmentation(**changes)

    def one(index: tf.Tensor) -> tf.Tensor:
        return augment_image(tf.constant(image), index, augmentation=augmentation, seed=1)

    return np.stack(list(tf.data.Dataset.range(count).map(no_autograph(one)).as_numpy_iterator()))


@pytest.mark.slow
def test_pixels_depend_on_nothing_but_seed_and_index():
    undisturbed = stream(augmentation=EVERYTHING)
    for parallel in (1, 4):
        np.testing.assert_array_equal(stream(augmentation=EVERYTHING, parallel=parallel), undisturbed)
    anew = traced.__wrapped__(EVERYTHING, 7)  # as in another process
    resumed = some(anew, start=29, count=19, parallel=2)
    np.testing.assert_array_equal(resumed, undisturbed[29:])
    brighter = Augmentation(brightness=0.4)
    assert (stream(augmentation=brighter, seed=8) != stream(augmentation=brighter)).any()


def test_an_image_is_another_each_time_it_comes():
    images = stream(augmentation=EVERYTHING)
    for n in range(len(FILES)):
        assert (images[n] != images[n + len(FILES)]).any()


def test_by_default_nothing_is_changed():
    picture = smooth(*SHAPE[:2])
    images = augmented(picture, count=3)
    np.testing.assert_array_equal(images, np.stack([picture] * 3))


def test_flips_half_of_the_images():
    picture = noise(9, 9, 3)
    images = augmented(picture, count=64, flip=True)
    kept = [np.array_equal(image, picture) for image in images]
    mirrored = [np.array_equal(image, picture[:, ::-1]) for image in images]
    assert all(a != b for a, b in zip(mirrored, kept, strict=True))
    assert 16 < sum(mirrored) < 48


def test_shift_uses_its_whole_range_and_no_more():
    column = np.zeros((1, 21, 1), np.uint8)
    column[0, 10] = 255
    light = augmented(column, shift=0.25)[:, 0, :, 0].astype(float)
    centre = (light @ np.arange(21)) / light.sum(axis=1)  # of mass, pixels
    limit = 0.25 * 21
    assert 10 - limit - 0.1 < centre.min() < 10 - 0.8 * limit
    assert 10 + 0.8 * limit < centre.max() < 10 + limit + 0.1


@pytest.mark.parametrize("change", ["brightness", "contrast"])
def test_factors_use_their_whole_range_and_no_more(change):
    picture = np.zeros((2, 2, 1), np.uint8)
    picture[0], picture[1] = 60, 140
    images = augmented(picture, **{change: 0.5}).astype(float)
    measured = (
        images[:, 1, 0, 0] / 140 if change == "brightness" else (images[:, 1] - images[:, 0])[:, 0, 0] / 80
    )
    assert 0.49 < measured.min() < 0.52
    assert 1.48 < measured.max() < 1.51


@pytest.mark.slow
def test_crops_use_the_whole_range_of_areas_and_aspects():
    ramp = smooth(200, 200)  # red grows to the right, green downwards
    data = tf.constant(encode(ramp, "PNG"))
    augmentation = Augmentation(crop_area=(0.1, 0.9), crop_aspect=(0.5, 2.0))

    def one(index: tf.Tensor) -> tf.Tensor:
        return training_image(data, index, shape=(32, 32, 3), augmentation=augmentation, seed=0)

    images = tf.data.Dataset.range(300).map(no_autograph(one))
    pixels = np.stack(list(images.as_numpy_iterator())).astype(float)
    width = (pixels[:, 16, -1, 0] - pixels[:, 16, 0, 0]) / 255 * 32 / 31
    height = (pixels[:, -1, 16, 1] - pixels[:, 0, 16, 1]) / 255 * 32 / 31
    area, aspect = width * height, width / height
    assert 0.08 < area.min() < 0.15 and 0.8 < area.max() < 0.93
    assert 0.47 < aspect.min() < 0.6 and 1.7 < aspect.max() < 2.1


def test_without_a_crop_training_sees_what_evaluation_does():
    evaluated = decode_images(tf.constant(FILES), SHAPE, max_pixels=10_000)
    np.testing.assert_array_equal(stream(augmentation=Augmentation(), count=len(FILES)), evaluated)


# Crops that are planned for a group have the pixels of those that every image plans for itself.
PLANNED = [
    encode(noise(28, 22, 3), "JPEG", subsampling=2),
    encode(smooth(900, 880), "JPEG"),  # decoded at a half, a quarter or an eighth
    encode(noise(90, 20, 3), "JPEG", exif=b"Exif\0\0" + exif(6)),  # seen turned
    encode(noise(28, 22), "JPEG"),  # grey
    encode(noise(30, 50, 3), "PNG"),
    encode(noise(1, 1, 3), "JPEG"),
]


def how(channels: int = 3, max_pixels: int = 1_000_000) -> dict:
    return {
        "shape": (16, 12, channels),
        "max_pixels": max_pixels,
        "augmentation": Augmentation(crop_area=(0.08, 1.0)),
        "seed": 5,
    }


@tf.function(autograph=False)
def planned_crops(files: tf.Tensor, positions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Pixels, uint8 [n, 16, 12, 3], and which of the images are plain."""
    plan = plan_crops(files, positions, **how())
    pixels = for_each(lambda *row: decode_planned(*row, **how()), (files, positions, plan))
    return pixels, plan.is_plain


@tf.function(autograph=False)
def cropped_alone(data: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    return decode_training_image(data, position, **how())


@pytest.mark.slow
def test_pixels_are_those_of_each_image_alone_in_a_group_of_any_size():
    files = tf.constant([file for file in PLANNED for _ in range(8)])
    positions = 7 + tf.range(len(files), dtype=tf.int64)
    together, is_plain = planned_crops(files, positions)
    expected = [cropped_alone(*one).numpy() for one in zip(files, positions, strict=True)]
    np.testing.assert_array_equal(together, expected)
    np.testing.assert_array_equal(planned_crops(files[3:18], positions[3:18])[0], expected[3:18])
    assert is_plain.numpy()[::8].tolist() == [True, False, False, True, False, True]


@pytest.mark.parametrize("channels", [1, 4])
def test_other_channels_are_planned_too(channels):
    files, positions = tf.constant(PLANNED[:2]), tf.constant([3, 4], tf.int64)
    plan = plan_crops(files, positions, **how(channels))
    for number in range(2):
        of_one = tf.nest.map_structure(lambda tensor, number=number: tensor[number], plan)
        found = decode_planned(files[number], positions[number], CropPlan(*of_one), **how(channels))
        expected = decode_training_image(files[number], positions[number], **how(channels))
        np.testing.assert_array_equal(found, expected)


def test_an_image_of_too_many_pixels_is_refused_by_name():
    limited = how(max_pixels=500)
    plan = plan_crops(tf.constant(PLANNED[:1]), tf.constant([0], tf.int64), **limited)
    of_one = CropPlan(*tf.nest.map_structure(lambda tensor: tensor[0], plan))
    with pytest.raises(InputError, match="28 x 22 pixels"), naming_refused_images():
        decode_planned(tf.constant(PLANNED[0]), tf.constant(0, tf.int64), of_one, **limited)


# Mixed pairs, beside NumPy's and beside the distributions of the papers.
IMAGES = np.random.default_rng(0).integers(0, 256, (2, 12, 9, 3), np.uint8)
IMAGES[1] = np.where(IMAGES[1] == IMAGES[0], IMAGES[1] ^ 1, IMAGES[1])  # no pixel is the same in both
PAIRS = 2_000


def mixed(first: int = 0, *, seed: int = 0, images: np.ndarray = IMAGES, **alpha: float) -> tuple:
    pixels, share = mixed_pair(
        tf.constant(images), tf.constant(first, tf.int64), augmentation=Augmentation(**alpha), seed=seed
    )
    return pixels.numpy(), share.numpy()


def shares(*, seed: int = 0, **alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Of many pairs: shares float32 [PAIRS], and whether all pixels of a pair come from one of both."""

    @tf.function(autograph=False)
    def of_all(firsts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def one(first: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            black_and_white = tf.constant(
                np.stack([np.zeros((64, 64, 1)), np.full((64, 64, 1), 255)]), tf.uint8
            )
            pixels, share = mixed_pair(black_and_white, first, augmentation=Augmentation(**alpha), seed=seed)
            return share, tf.reduce_all((pixels == 0) | (pixels == 255))

        return tf.map_fn(one, firsts, fn_output_signature=(tf.float32, tf.bool))

    found, whole = of_all(tf.range(0, 2 * PAIRS, 2, tf.int64))
    return found.numpy(), whole.numpy()


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_shares_of_mixup_are_beta_distributed(alpha):
    found, _ = shares(mixup=alpha)
    assert scipy.stats.kstest(found, scipy.stats.beta(alpha, alpha).cdf).pvalue > 0.01
    assert np.abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.06


def test_mixup_is_a_mean_by_the_share():
    pixels, share = mixed(6, mixup=1.0)
    assert 0.1 < share < 0.9
    own, other = IMAGES.astype(np.float64), IMAGES[::-1].astype(np.float64)
    np.testing.assert_allclose(pixels, share * own + (1 - share) * other, rtol=0, atol=0.501)


def test_cutmix_puts_one_box_into_both_and_counts_its_pixels():
    drawn = 0
    for first in range(0, 80, 2):
        pixels, share = mixed(first, cutmix=1.0)
        is_other = (pixels == IMAGES[::-1]).all(axis=-1)
        np.testing.assert_array_equal(is_other, (pixels != IMAGES).any(axis=-1))  # a pixel is of one of both
        np.testing.assert_array_equal(is_other[0], is_other[1])
        rows, columns = is_other[0].any(axis=1), is_other[0].any(axis=0)
        np.testing.assert_array_equal(is_other[0], rows[:, None] & columns[None, :])
        for side in (rows, columns):
            assert np.count_nonzero(np.diff(np.r_[0, side, 0])) <= 2  # one run of pixels
        assert share == pytest.approx(1 - is_other[0].mean(), abs=1e-6)
        drawn += is_other.any()
    assert drawn > 30


def test_boxes_are_as_large_as_in_the_paper():
    """Drawn otherwise: its code, with NumPy's random numbers."""
    draw, kept = np.random.default_rng(1), []
    for _ in range(PAIRS):
        side = int(np.sqrt(1 - draw.beta(1, 1)) * 64)
        middle = draw.integers(0, 64, 2)
        low, high = np.clip(middle - side // 2, 0, 64), np.clip(middle + side // 2, 0, 64)
        kept.append(1 - np.prod(high - low) / 64**2)
    found, _ = shares(cutmix=1.0)
    assert scipy.stats.ks_2samp(found, kept).pvalue > 0.01


def test_with_both_a_pair_has_one_or_the_other_half_of_the_time():
    found, is_cut = shares(mixup=0.7, cutmix=1.0)
    assert scipy.stats.binomtest(int(is_cut.sum()), PAIRS).pvalue > 0.01
    assert scipy.stats.kstest(found[~is_cut], scipy.stats.beta(0.7, 0.7).cdf).pvalue > 0.01


def test_what_comes_of_a_pair_depends_on_seed_and_position_alone():
    pixels, share = mixed(6, mixup=1.0)
    again, same = mixed(6, mixup=1.0)
    assert share == same
    np.testing.assert_array_equal(pixels, again)
    assert len({share, mixed(8, mixup=1.0)[1], mixed(6, seed=1, mixup=1.0)[1]}) == 3


@pytest.mark.parametrize("alpha", [5e-324, 1e-3, 10.0])
def test_shares_are_sound_at_the_ends_of_the_range(alpha):
    found, _ = shares(mixup=alpha)
    assert ((found >= 0) & (found <= 1)).all()
    assert abs(found.mean() - 0.5) < 0.05
