"""Crops that are planned for a group have the pixels of those that every image plans for itself."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.base.tracing import for_each
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.training_image import CropPlan, decode_planned, decode_training_image, plan_crops
from tests.conformance.pictures.subtypes import exif
from tests.shared.pictures import encode, noise, smooth
from tests.unit.data.images.training_images import naming_refused_images

FILES = [
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
def planned(files: tf.Tensor, positions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Pixels, uint8 [n, 16, 12, 3], and which of the images are plain."""
    plan = plan_crops(files, positions, **how())
    pixels = for_each(lambda *row: decode_planned(*row, **how()), (files, positions, plan))
    return pixels, plan.is_plain


@tf.function(autograph=False)
def alone(data: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    return decode_training_image(data, position, **how())


def test_pixels_are_those_of_each_image_alone_in_a_group_of_any_size():
    files = tf.constant([file for file in FILES for _ in range(8)])
    positions = 7 + tf.range(len(files), dtype=tf.int64)
    together, is_plain = planned(files, positions)
    expected = [alone(*one).numpy() for one in zip(files, positions, strict=True)]
    np.testing.assert_array_equal(together, expected)
    np.testing.assert_array_equal(planned(files[3:18], positions[3:18])[0], expected[3:18])
    assert is_plain.numpy()[::8].tolist() == [True, False, False, True, False, True]


@pytest.mark.parametrize("channels", [1, 4])
def test_other_channels_are_planned_too(channels):
    files, positions = tf.constant(FILES[:2]), tf.constant([3, 4], tf.int64)
    plan = plan_crops(files, positions, **how(channels))
    for number in range(2):
        of_one = tf.nest.map_structure(lambda tensor, number=number: tensor[number], plan)
        found = decode_planned(files[number], positions[number], CropPlan(*of_one), **how(channels))
        expected = decode_training_image(files[number], positions[number], **how(channels))
        np.testing.assert_array_equal(found, expected)


def test_an_image_of_too_many_pixels_is_refused_by_name():
    limited = how(max_pixels=500)
    plan = plan_crops(tf.constant(FILES[:1]), tf.constant([0], tf.int64), **limited)
    of_one = CropPlan(*tf.nest.map_structure(lambda tensor: tensor[0], plan))
    with pytest.raises(InputError, match="28 x 22 pixels"), naming_refused_images():
        decode_planned(tf.constant(FILES[0]), tf.constant(0, tf.int64), of_one, **limited)
