"""An ordinary JPEG or PNG is known by its header; damage that TensorFlow refuses is found all the same."""

import io
import random

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from beam_jobs.cells import image_formats
from beam_jobs.cells.images import BadImageError, normalized
from pipeline.data.schema.feature_types import Image
from tests.conformance.pictures import subtypes
from tests.conformance.pictures.subtypes import exif
from tests.shared.pictures import encode

MOST = 1_000_000
ROUGH = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
PIXELS = np.asarray(PIL.Image.fromarray(ROUGH).resize((160, 120)))


def jpeg(mode: str = "RGB", size: tuple[int, int] = (61, 45), **options: object) -> bytes:
    stream = io.BytesIO()
    PIL.Image.fromarray(ROUGH).resize(size).convert(mode).save(stream, **{"format": "JPEG", **options})
    return stream.getvalue()


def passes(data: bytes) -> bool:
    try:
        return normalized(data, Image(name="image")) is data
    except BadImageError:
        return False


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


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"file_format": "PNG"}])
@pytest.mark.parametrize("damage", [cut, flipped, with_foreign_marker])
def test_damage_that_tensorflow_refuses_is_found(damage, options: dict):
    data = encode(PIXELS, **{"file_format": "JPEG", **options})
    assert passes(data)
    places = random.Random(0).sample(range(len(data) - 2), 150)
    refused = [at for at in places if not tensorflow_decodes(damage(data, at))]
    assert refused
    assert [at for at in refused if passes(damage(data, at))] == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:60] + b"?" + data[61:],
        lambda data: data[:-12],
        lambda data: data[:-8] + b"IENT" + data[-4:],
    ],
)
def test_a_damaged_png_is_refused_that_pillow_does_not_mind(damage):
    data = subtypes.subtypes()["png rgb, 8 bits"](np.random.default_rng(0), 8, 12)
    assert image_formats.damage(data) == ""
    assert "a PNG with a damaged part, or none that ends it" in image_formats.damage(damage(data))


def test_what_stands_behind_the_end_does_no_harm():
    assert passes(jpeg() + b"\x00" * 100)  # some cameras pad their files
    assert passes(jpeg() + jpeg())  # and some append a preview
    assert passes(jpeg()[:2] + b"\xff\xff" + jpeg()[2:])  # and some fill up


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("size", [(1, 1), (8, 7), (61, 45), (640, 9)])
def test_a_plain_jpeg_has_a_size(mode: str, size: tuple[int, int]):
    for data in (jpeg(mode, size), jpeg(mode, size, restart_marker_blocks=2) + b"behind its end"):
        assert image_formats.plain_jpeg_size(data, max_pixels=MOST) == size


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xd8",
        jpeg()[:-2],
        jpeg()[:300],
        jpeg("CMYK"),
        jpeg(progressive=True),
        jpeg(exif=b"Exif\0\0" + exif(1)),
        jpeg(format="PNG"),
        b"x" + jpeg(),
    ],
)
def test_all_else_is_left_to_pillow(data: bytes):
    assert image_formats.plain_jpeg_size(data, max_pixels=MOST) is None


def test_a_damaged_header_never_gives_another_size_than_libjpeg_reads():
    # Pillow would write beyond its memory.
    data, choose = jpeg(), random.Random(0)
    told = 0
    for _ in range(500):
        damaged = bytearray(data)
        damaged[choose.randrange(640)] = choose.randrange(256)
        size = image_formats.plain_jpeg_size(bytes(damaged), max_pixels=MOST)
        if size:
            told += 1
            assert tuple(tf.io.decode_jpeg(bytes(damaged)).shape[1::-1]) == size
    assert told > 100


def test_images_are_told_by_their_first_bytes():
    for file_format in ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF"):
        assert image_formats.has_image_header(encode(PIXELS, file_format))
    assert not image_formats.has_image_header(b"RIFF\x24\0\0\0WAVEfmt ")
    assert not image_formats.has_image_header(b"BMX is a sport")
