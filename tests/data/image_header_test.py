"""A file's first bytes tell its format and its size, without decoding."""

import pytest
import tensorflow as tf

from pipeline.data import image_header
from tests.pictures import encode, noise

PIXELS = noise(20, 30, 3)  # height 20, width 30


@pytest.mark.parametrize(
    ("data", "file_format", "size"),
    [
        (encode(PIXELS, "PNG"), image_header.PNG, image_header.png_size),
        (encode(PIXELS, "GIF"), image_header.GIF, image_header.gif_size),
        (encode(PIXELS, "BMP"), image_header.BMP, image_header.bmp_size),
        (encode(PIXELS, "WEBP"), image_header.WEBP, image_header.webp_size),
        (encode(PIXELS, "WEBP", lossless=True), image_header.WEBP, image_header.webp_size),
        (encode(PIXELS, "WEBP", exif=b"Exif\0\0"), image_header.WEBP, image_header.webp_size),
    ],
)
def test_format_and_size(data, file_format, size):
    head = image_header.first_bytes(tf.constant(data))
    assert image_header.format_of(head) == file_format
    assert size(head).numpy().tolist() == [20, 30]


@pytest.mark.parametrize("data", [b"", b"text", b"RIFF\0\0\0\0WAVEfmt ", b"\x89PNG\r\n\x1a\n\0\0\0\x04tIME"])
def test_what_has_no_whole_signature_is_unknown(data):
    assert image_header.format_of(image_header.first_bytes(tf.constant(data))) == image_header.UNKNOWN


def test_a_jpeg_is_known_by_three_bytes():
    head = image_header.first_bytes(tf.constant(encode(PIXELS, "JPEG")))
    assert image_header.format_of(head) == image_header.JPEG
