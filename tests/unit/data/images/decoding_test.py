"""JPEGs and PNGs become the pixels that Pillow reads; too large ones are not decoded at all."""

import functools
import io
import struct
from collections.abc import Callable

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.images.decoding import decode_crop, decode_image, decode_images, decode_whole
from tests.shared.hostile_pictures import hostile_pictures
from tests.shared.pictures import decode, encode, noise, smooth
from tests.unit.data.images.training_images import naming_refused_images

RGB, GREY, RGBA = noise(20, 30, 3), noise(20, 30), noise(20, 30, 4)
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
FILES = {
    "png": encode(RGB, "PNG"),
    "grey png": encode(GREY, "PNG"),
    "png with alpha": encode(RGBA, "PNG"),
}


@functools.cache  # tracing takes far longer than decoding
def traced(channels: int, max_pixels: int) -> Callable[[tf.Tensor], tf.Tensor]:
    decode = functools.partial(decode_image, channels=channels, max_pixels=max_pixels)
    return tf.function(decode, autograph=False, input_signature=[tf.TensorSpec([], tf.string)])


@functools.cache
def traced_crop() -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """The picture in data, string [], and a box, int32 [4] → uint8 [12, 12, 3]."""

    def cropped(data: tf.Tensor, box: tf.Tensor) -> tf.Tensor:
        return decode_crop(data, lambda _: box, (12, 12, 3), max_pixels=10_000)

    signature = [tf.TensorSpec([], tf.string), tf.TensorSpec([4], tf.int32)]
    return tf.function(cropped, autograph=False, input_signature=signature)


def decoded(data: bytes, *, channels: int = 3, max_pixels: int = 1_000) -> np.ndarray:
    with naming_refused_images():
        return traced(channels, max_pixels)(tf.constant(data)).numpy()


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("name", FILES)
def test_pixels_are_those_that_pillow_reads(name, channels):
    expected = decode(FILES[name], MODES[channels]).reshape(20, 30, channels)
    difference = np.abs(decoded(FILES[name], channels=channels).astype(int) - expected)
    assert difference.max() <= (1 if channels == 1 else 0)  # luma is rounded in another way


@pytest.mark.parametrize("channels", [1, 3])
def test_a_jpeg_is_read_bit_for_bit_as_pillow_reads_it(channels):
    data = encode(RGB if channels == 3 else GREY, "JPEG")
    expected = decode(data, MODES[channels]).reshape(20, 30, channels)
    np.testing.assert_array_equal(decoded(data, channels=channels), expected)


def png_of_size(height: int, width: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)


def jpeg_of_size(height: int, width: int) -> bytes:
    data = bytearray(encode(RGB, "JPEG"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(data)


@pytest.mark.parametrize("bomb", [png_of_size, jpeg_of_size])
def test_a_small_file_that_declares_many_pixels_is_refused(bomb):
    expected = r'received 16,000 x 15,000 pixels.*expected 1 to 1,000,000.*set "max_pixels"'
    with pytest.raises(InputError, match=expected):
        decoded(bomb(16_000, 15_000), max_pixels=1_000_000)


def test_a_png_larger_than_any_memory_is_refused():
    with pytest.raises(InputError, match="received 4,294,967,295 x 60,000 pixels"):
        decoded(png_of_size(2**32 - 1, 60_000), max_pixels=1 << 40)


def test_the_limit_itself_is_allowed():
    assert decoded(FILES["png"], max_pixels=600).shape == (20, 30, 3)
    with pytest.raises(InputError, match="received 20 x 30 pixels"):
        decoded(FILES["png"], max_pixels=599)


def test_what_is_no_image_is_shown():
    with pytest.raises(InputError, match=r"received data that begins with b'<html>.*expected a JPEG or PNG"):
        decoded(b"<html></html>")
    with pytest.raises(InputError, match=r"received data that begins with b'GIF8.*expected a JPEG or PNG"):
        decoded(encode(RGB, "GIF"))


def test_other_errors_pass_unchanged():
    with pytest.raises(tf.errors.InvalidArgumentError), naming_refused_images():
        decoded(FILES["png"][:60])


@pytest.mark.parametrize("box", [(0, 0, 40, 60), (3, 5, 17, 23), (24, 8, 16, 48)])
def test_a_crop_of_a_jpeg_is_the_whole_decoded_and_then_cropped(box):
    data = tf.constant(encode(noise(40, 60, 3), "JPEG", quality=90, subsampling=0))
    top, left, height, width = box
    whole = decode_image(data, channels=3, max_pixels=10_000)[top : top + height, left : left + width]
    cropped = decode_crop(data, lambda _: tf.constant(box), (height, width, 3), max_pixels=10_000)
    np.testing.assert_array_equal(cropped, whole)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
def test_a_crop_is_resized_and_rounded(file_format):
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, 8:] = 255
    data = tf.constant(encode(pixels, file_format))
    box = tf.constant([0, 0, 8, 16])
    cropped = decode_crop(data, lambda _: box, (8, 17, 3), max_pixels=10_000)
    assert cropped[0, 8, 0] == 128  # the middle of 17 lies between black and white


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("shrink", [1, 2, 4, 8])
def test_a_crop_of_a_jpeg_has_the_pixels_of_the_whole_to_its_edge(subsampling, shrink):
    """Where colour has fewer pixels than light, too; `draft` has Pillow decode at a half and less."""
    data = encode(noise(167, 181, 3), "JPEG", subsampling=subsampling)
    picture = PIL.Image.open(io.BytesIO(data))
    picture.draft("RGB", (181 // shrink, 167 // shrink))
    top, left, height, width = part = (3, 5, 15, 14)
    box = tf.constant(part) * shrink
    cropped = decode_crop(tf.constant(data), lambda _: box, (height, width, 3), max_pixels=40_000)
    expected = np.asarray(picture)[top : top + height, left : left + width]
    np.testing.assert_array_equal(cropped, expected)


@pytest.mark.parametrize("size", [(31, 12), (12, 31), (9, 40), (31, 31)])
@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
def test_a_crop_that_shrinks_by_more_than_two_is_averaged_as_pillow_does(size, file_format):
    for name, pixels in hostile_pictures(*size).items():
        height, width = pixels.shape[:2]
        if max(height, width) > 24:
            data = encode(pixels, file_format, **({"subsampling": 0} if file_format == "JPEG" else {}))
            whole = PIL.Image.fromarray(decode(data))
            expected = np.asarray(whole.resize((12, 12), PIL.Image.Resampling.BILINEAR)).astype(int)
            found = traced_crop()(tf.constant(data), tf.constant([0, 0, height, width]))
            if file_format == "PNG" or min(height, width) < 24:  # else the JPEG is decoded at a half
                np.testing.assert_allclose(found.numpy().astype(int), expected, atol=1, err_msg=name)


@pytest.mark.parametrize("size", [(24, 24), (17, 23), (5, 12), (12, 3), (1, 20)])
def test_a_crop_that_shrinks_by_less_is_interpolated_as_pillow_does(size):
    for name, pixels in hostile_pictures(*size).items():
        height, width = pixels.shape[:2]
        whole, bilinear = PIL.Image.fromarray(pixels), PIL.Image.Resampling.BILINEAR
        expected = whole.transform((12, 12), PIL.Image.Transform.EXTENT, (0, 0, width, height), bilinear)
        box, data = tf.constant([0, 0, height, width]), tf.constant(encode(pixels, "PNG"))
        found = traced_crop()(data, box).numpy().astype(int)
        np.testing.assert_allclose(found, np.asarray(expected).astype(int), atol=1, err_msg=name)


@pytest.mark.parametrize("size", [(5, 7), (12, 40), (70, 33), (1, 50)])
def test_a_whole_picture_is_resized_as_pillow_does(size):
    for name, pixels in hostile_pictures(*size).items():
        expected = np.asarray(PIL.Image.fromarray(pixels).resize((10, 12), PIL.Image.Resampling.BILINEAR))
        found = decode_whole(tf.constant(encode(pixels, "PNG")), (12, 10, 3), max_pixels=10_000)
        np.testing.assert_allclose(found.numpy().astype(int), expected.astype(int), atol=1, err_msg=name)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
@pytest.mark.parametrize("shrink", [1, 2, 3, 5, 9])
def test_large_crops_are_shrunk_without_losing_their_place(file_format, shrink):
    picture = smooth(24 * shrink, 32 * shrink)
    data = tf.constant(encode(picture, file_format))
    box = tf.constant([0, 8 * shrink, 24 * shrink, 16 * shrink])
    cropped = decode_crop(data, lambda _: box, (24, 16, 3), max_pixels=1_000_000).numpy()
    expected = smooth(24, 32)[:, 8:24].astype(int)
    np.testing.assert_allclose(cropped[2:-2, 2:-2].astype(int), expected[2:-2, 2:-2], atol=8)


def test_a_batch_is_decoded_and_normalised():
    encoded = tf.constant([FILES["png"], encode(RGB, "JPEG")])
    pixels = decode_images(encoded, (20, 30, 3), max_pixels=1_000)
    floats = decode_images(encoded, (20, 30, 3), max_pixels=1_000, image_dtype="bfloat16")
    assert (pixels.dtype, floats.dtype) == (tf.uint8, tf.bfloat16)
    np.testing.assert_allclose(tf.cast(floats, tf.float32), pixels.numpy() / 127.5 - 1.0, atol=0.005)
