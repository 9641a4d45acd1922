"""A file's first bytes tell its format and its size, without decoding."""

import pytest
import tensorflow as tf

from pipeline.data.images import pixels
from tests.shared.pictures import encode, noise

PIXELS = noise(20, 30, 3)  # height 20, width 30


@pytest.mark.parametrize(
    ("data", "file_format", "size"),
    [
        (encode(PIXELS, "PNG"), pixels.PNG, pixels.png_size),
        (encode(PIXELS, "GIF"), pixels.GIF, pixels.gif_size),
        (encode(PIXELS, "BMP"), pixels.BMP, pixels.bmp_size),
        (encode(PIXELS, "WEBP"), pixels.WEBP, pixels.webp_size),
        (encode(PIXELS, "WEBP", lossless=True), pixels.WEBP, pixels.webp_size),
        (encode(PIXELS, "WEBP", exif=b"Exif\0\0"), pixels.WEBP, pixels.webp_size),
    ],
)
def test_format_and_size(data, file_format, size):
    head = pixels.first_bytes(tf.constant(data))
    assert pixels.format_of(head) == file_format
    assert size(head).numpy().tolist() == [20, 30]


@pytest.mark.parametrize("data", [b"", b"text", b"RIFF\0\0\0\0WAVEfmt ", b"\x89PNG\r\n\x1a\n\0\0\0\x04tIME"])
def test_what_has_no_whole_signature_is_unknown(data):
    assert pixels.format_of(pixels.first_bytes(tf.constant(data))) == pixels.UNKNOWN


def test_a_jpeg_is_known_by_three_bytes():
    head = pixels.first_bytes(tf.constant(encode(PIXELS, "JPEG")))
    assert pixels.format_of(head) == pixels.JPEG
