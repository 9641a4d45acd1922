"""The check of an image file finds what TensorFlow would refuse to decode, without decoding all of it."""

import random

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from beam_jobs.cells.image_check import BadImageError, check_image, has_image_header
from pipeline.data.schema.kinds import Image
from tests.shared.pictures import encode

ANY = Image(name="image")
ROUGH = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
PIXELS = np.asarray(PIL.Image.fromarray(ROUGH).resize((160, 120)))


def jpeg(*, progressive: bool = False) -> bytes:
    return encode(PIXELS, "JPEG", progressive=progressive)


def passes(data: bytes) -> bool:
    try:
        check_image(data, ANY)
    except BadImageError:
        return False
    return True


def tensorflow_decodes(data: bytes) -> bool:
    try:
        tf.io.decode_image(data, channels=3, expand_animations=False)
    except tf.errors.InvalidArgumentError:
        return False
    return True


def cut(data: bytes, at: int) -> bytes:
    return data[:at]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def with_foreign_marker(data: bytes, at: int) -> bytes:
    return data[:at] + b"\xff\xc4" + data[at + 2 :]


@pytest.mark.parametrize("progressive", [False, True])
def test_a_whole_jpeg_passes(progressive: bool):
    assert passes(jpeg(progressive=progressive))


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("damage", [cut, flipped, with_foreign_marker])
def test_damage_that_tensorflow_refuses_is_found(damage, progressive: bool):
    data = jpeg(progressive=progressive)
    places = random.Random(0).sample(range(len(data) - 2), 150)
    refused = [at for at in places if not tensorflow_decodes(damage(data, at))]
    assert refused
    assert [at for at in refused if passes(damage(data, at))] == []


@pytest.mark.parametrize("lossless", [False, True])
def test_a_webp_passes_and_a_damaged_one_that_tensorflow_refuses_does_not(lossless: bool):
    data = encode(PIXELS, "WEBP", lossless=lossless)
    assert passes(data) and has_image_header(data)
    places = random.Random(0).sample(range(12, len(data) - 2), 150)
    refused = [at for at in places if not tensorflow_decodes(cut(data, at))]
    assert refused
    assert [at for at in refused if passes(cut(data, at))] == []


def test_an_animated_webp_is_refused_before_tensorflow_sees_it():
    with pytest.raises(BadImageError, match="animated WebP"):
        check_image(encode(PIXELS, "WEBP", np.zeros_like(PIXELS)), ANY)


def test_other_riff_files_are_no_images():
    assert not has_image_header(b"RIFF\x24\0\0\0WAVEfmt ")


def test_what_stands_behind_the_end_does_no_harm():
    assert passes(jpeg() + b"\x00" * 100)  # some cameras pad their files
    assert passes(jpeg() + jpeg())  # and some append a preview
