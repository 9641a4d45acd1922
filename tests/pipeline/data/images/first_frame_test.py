"""Cutting a file after its first frame leaves that frame's pixels, and no other's."""

import io

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from pipeline.data.images import formats
from tests.shared.pictures import decode, encode, noise

FRAMES = [noise(20, 30, 3, seed=seed) for seed in range(3)]


def frames(data: bytes) -> int:
    return PIL.Image.open(io.BytesIO(data)).n_frames


def test_an_animated_gif_becomes_its_first_frame():
    animation = encode(FRAMES[0], "GIF", *FRAMES[1:], comment=b"three frames", duration=100)
    first = formats.first_frame_of_gif(tf.constant(animation))
    assert (frames(animation), frames(first.file.numpy())) == (3, 1)
    assert (first.corner.numpy().tolist(), first.size.numpy().tolist()) == ([0, 0], [20, 30])
    assert not first.is_transparent
    np.testing.assert_array_equal(decode(first.file.numpy()), decode(animation))


def test_a_transparent_colour_is_noticed():
    indexed = PIL.Image.fromarray(FRAMES[0]).quantize(16)
    stream = io.BytesIO()
    indexed.save(stream, "GIF", transparency=0)
    assert formats.first_frame_of_gif(tf.constant(stream.getvalue())).is_transparent


def test_a_gif_without_a_frame_has_no_size():
    animation = encode(FRAMES[0], "GIF")
    for end in range(13, 40):
        assert formats.first_frame_of_gif(tf.constant(animation[:end])).size.numpy().tolist() == [0, 0]


@pytest.mark.parametrize("lossless", [True, False])
def test_an_animated_webp_becomes_a_still(lossless):
    animation = encode(FRAMES[0], "WEBP", *FRAMES[1:], lossless=lossless)
    still = formats.first_frame_of_webp(tf.constant(animation)).numpy()
    assert (frames(animation), frames(still)) == (3, 1)
    np.testing.assert_array_equal(decode(still), decode(animation))


def test_a_still_webp_is_left_alone():
    still = encode(FRAMES[0], "WEBP")
    assert formats.first_frame_of_webp(tf.constant(still)) == still
