"""A plain JPEG is known by its size; anything else, whole or damaged, is left to Pillow."""

import io
import random

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from beam_jobs.cells import image_formats

MOST = 1_000_000


def encoded(mode: str = "RGB", size: tuple[int, int] = (61, 45), **options: object) -> bytes:
    rough = np.random.default_rng(0).integers(0, 256, (20, 20, 3), np.uint8)
    stream = io.BytesIO()
    PIL.Image.fromarray(rough).resize(size).convert(mode).save(stream, **{"format": "JPEG", **options})
    return stream.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("size", [(1, 1), (8, 7), (61, 45), (640, 9)])
def test_a_plain_jpeg_has_a_size(mode: str, size: tuple[int, int]):
    assert image_formats.jpeg_size(encoded(mode, size), max_pixels=MOST) == size
    assert (
        image_formats.jpeg_size(
            encoded(mode, size, restart_marker_blocks=2) + b"behind its end", max_pixels=MOST
        )
        == size
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xd8",
        encoded()[:-2],
        encoded()[:300],
        encoded("CMYK"),
        encoded(progressive=True),
        encoded(format="PNG"),
        b"x" + encoded(),
    ],
)
def test_all_else_is_left_to_others(data: bytes):
    assert image_formats.jpeg_size(data, max_pixels=MOST) is None


def test_a_damaged_header_never_gives_another_size_than_libjpeg_reads():
    # Pillow would write beyond its memory.
    data, choose = encoded(), random.Random(0)
    told = 0
    for _ in range(500):
        damaged = bytearray(data)
        damaged[choose.randrange(640)] = choose.randrange(256)
        size = image_formats.jpeg_size(bytes(damaged), max_pixels=MOST)
        if size:
            told += 1
            assert tuple(tf.io.decode_jpeg(bytes(damaged)).shape[1::-1]) == size
    assert told > 100
