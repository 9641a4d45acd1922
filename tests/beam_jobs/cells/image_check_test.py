"""The check of an image file finds what TensorFlow would refuse to decode, without decoding all of it."""

import os
import pathlib
import random
import struct
import zlib

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from beam_jobs.cells.images import BadImageError, check_image, has_image_header, read_image
from pipeline.data.schema.feature_types import Image
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


def png_of_size(height: int, width: int) -> bytes:
    """A whole header, and no pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n\0\0\0\x0d" + header + struct.pack(">I", zlib.crc32(header)) + b"\0\0\0\0IDAT"


def test_nothing_larger_than_the_schema_allows_is_decoded():
    expected = r"^13,300x13,300 pixels, more than the 1,000,000 of the schema's max_pixels"
    with pytest.raises(BadImageError, match=expected):
        check_image(png_of_size(13_300, 13_300), Image(name="image", max_pixels=1_000_000))
    with pytest.raises(BadImageError, match=r"^160x120 pixels, more than the 19,199"):
        check_image(jpeg(), Image(name="image", max_pixels=19_199))
    check_image(jpeg(), Image(name="image", max_pixels=19_200))


def test_a_pipe_is_not_read(tmp_path: pathlib.Path):
    os.mkfifo(tmp_path / "endless.png")
    with pytest.raises(BadImageError, match="not an ordinary file"):
        read_image(str(tmp_path / "endless.png"), ANY)
