"""A file's first bytes tell its format and size; a JPEG is turned as its EXIF data say, whole or cut out."""

import io

import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest
import tensorflow as tf

from pipeline.data.images import formats
from pipeline.data.images.decoding import decode_crop, decode_image
from tests.conformance.pictures.subtypes import exif
from tests.shared.pictures import encode, noise, smooth

BOX = (2, 6, 16, 8)  # top, left, height and width, in the picture as it is seen
DECODE = tf.function(lambda data: decode_image(data, channels=3, max_pixels=10_000), autograph=False)
CROP = tf.function(
    lambda data: decode_crop(data, lambda _: tf.constant(BOX), (16, 8, 3), max_pixels=10_000), autograph=False
)


def picture(orientation: int) -> tuple[tf.Tensor, np.ndarray]:
    """A file, and what is seen."""
    stored = encode(smooth(24, 32), "JPEG", quality=95, subsampling=0, exif=b"Exif\0\0" + exif(orientation))
    seen = PIL.ImageOps.exif_transpose(PIL.Image.open(io.BytesIO(stored)))
    return tf.constant(stored), np.asarray(seen)


def test_the_header_of_a_png_has_its_size():
    head = formats.first_bytes(tf.constant(encode(noise(20, 30, 3), "PNG")))
    assert formats.format_of(head) == formats.PNG
    assert formats.png_size(head).numpy().tolist() == [20, 30]


def test_a_jpeg_is_known_by_three_bytes():
    assert formats.format_of(formats.first_bytes(tf.constant(b"\xff\xd8\xff"))) == formats.JPEG


@pytest.mark.parametrize("data", [b"", b"text", b"GIF89a", b"\x89PNG\r\n\x1a\n\0\0\0\x04tIME"])
def test_what_has_no_whole_signature_is_unknown(data: bytes):
    assert formats.format_of(formats.first_bytes(tf.constant(data))) == formats.UNKNOWN


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_whole_picture_is_seen_upright(orientation: int):
    data, seen = picture(orientation)
    np.testing.assert_array_equal(DECODE(data), seen)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_part_is_cut_out_of_the_upright_picture(orientation: int):
    data, seen = picture(orientation)
    top, left, height, width = BOX
    np.testing.assert_array_equal(CROP(data), seen[top : top + height, left : left + width])
