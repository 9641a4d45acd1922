"""Training images: changed as far as the config says, and the same on every run."""

import functools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from pipeline.configs import base
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.training_image import augment_image
from tests.shared.pictures import encode, noise, smooth
from tests.unit.data.images.training_images import training_image

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
    images = tf.data.Dataset.range(start, start + count).map(example, num_parallel_calls=parallel)
    return np.stack(list(images.as_numpy_iterator()))


@functools.cache  # tracing takes far longer than the images
def traced(augmentation: Augmentation, seed: int) -> Example:
    def example(index: tf.Tensor) -> tf.Tensor:
        data = tf.constant(FILES)[index % len(FILES)]
        return training_image(data, index, shape=SHAPE, augmentation=augmentation, seed=seed)

    return tf.function(example, input_signature=[tf.TensorSpec([], tf.int64)])


def augmented(image: np.ndarray, count: int = 500, **changes: object) -> np.ndarray:
    """One image, changed in `count` ways: uint8 [count, height, width, channels]."""
    augmentation = Augmentation(**changes)
    images = tf.data.Dataset.range(count).map(
        lambda index: augment_image(tf.constant(image), index, augmentation=augmentation, seed=1)
    )
    return np.stack(list(images.as_numpy_iterator()))


def test_pixels_depend_on_nothing_but_seed_and_index():
    undisturbed = stream(augmentation=EVERYTHING)
    for parallel in (1, 4):
        np.testing.assert_array_equal(stream(augmentation=EVERYTHING, parallel=parallel), undisturbed)
    anew = traced.__wrapped__(EVERYTHING, 7)  # as in another process
    resumed = some(anew, start=29, count=19, parallel=2)
    np.testing.assert_array_equal(resumed, undisturbed[29:])
    assert (stream(augmentation=EVERYTHING, seed=8) != undisturbed).any()


def test_an_image_is_another_each_time_it_comes():
    images = stream(augmentation=EVERYTHING)
    for n in range(len(FILES)):
        assert (images[n] != images[n + len(FILES)]).any()


def test_by_default_nothing_is_changed():
    assert Augmentation(**base.get_config().augmentation) == Augmentation()
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


def test_crops_use_the_whole_range_of_areas_and_aspects():
    ramp = smooth(200, 200)  # red grows to the right, green downwards
    data = tf.constant(encode(ramp, "PNG"))
    augmentation = Augmentation(crop_area=(0.1, 0.9), crop_aspect=(0.5, 2.0))
    images = tf.data.Dataset.range(300).map(
        lambda index: training_image(data, index, shape=(32, 32, 3), augmentation=augmentation, seed=0)
    )
    pixels = np.stack(list(images.as_numpy_iterator())).astype(float)
    width = (pixels[:, 16, -1, 0] - pixels[:, 16, 0, 0]) / 255 * 32 / 31
    height = (pixels[:, -1, 16, 1] - pixels[:, 0, 16, 1]) / 255 * 32 / 31
    area, aspect = width * height, width / height
    assert 0.08 < area.min() < 0.15 and 0.8 < area.max() < 0.93
    assert 0.47 < aspect.min() < 0.6 and 1.7 < aspect.max() < 2.1


def test_without_a_crop_training_sees_what_evaluation_does():
    from pipeline.data.images.decoding import decode_images

    evaluated = decode_images(tf.constant(FILES), SHAPE, max_pixels=10_000)
    np.testing.assert_array_equal(stream(augmentation=Augmentation(), count=len(FILES)), evaluated)
