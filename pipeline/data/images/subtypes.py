"""Which images TensorFlow decodes to other pixels than they are seen with, without a word; in the graph.

The conversion refuses them, and says more (`beam_jobs/cells/image_subtypes.py`). An image of a request, or of
a record that others wrote, has not met the conversion.
"""

import tensorflow as tf

from pipeline.data.images import orientation
from pipeline.data.images.first_frame import GifFrame
from pipeline.data.tracing import apart

_GREY, _COLOUR, _PALETTE = 0, 2, 3  # colour types of PNG (ISO 15948, 11.2.2)
_PNG_CHUNKS, _SECOND_NAME = 8, slice(37, 41)  # where a PNG's chunks begin; the second one's name
_WEBP_CHUNKS, _WEBP_EXIF = 12, 0x08
_BMP_FILE_HEADER_BYTES, _RAMP_BYTES = 14, 4 * 256
_MASKS = 3
_BGR, _ALPHA = [0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 0], [0, 0, 0, 255]  # masks, little-endian
_EXIF = "Exif\0\0"


def is_other_png(data: tf.Tensor, head: tf.Tensor, *, channels: int) -> tf.Tensor:
    """Whether a PNG, string [] with first bytes int32 [HEADER_BYTES], would be seen otherwise: bool []."""
    depth, colour = head[24], head[25]
    is_other = (colour == _GREY) & (depth == 16)
    if channels == 4:
        by_transparency = (depth < 8) | ((colour == _COLOUR) & (depth == 16))
        is_other |= by_transparency & _is_other_with_alpha(data, depth, colour)
    # Most files go on with their pixels, and are spared the search.
    has_more = tf.reduce_any(head[_SECOND_NAME] != list(b"IDAT"))
    return is_other | tf.cond(has_more, lambda: _is_turned_png(data), lambda: tf.constant(False))


def is_other_gif(frame: GifFrame, screen: tf.Tensor, *, channels: int) -> tf.Tensor:
    """Whether a GIF with this first frame, and a screen int64 [2], would be seen otherwise: bool []."""
    is_other = tf.reduce_any(frame.corner != 0) | tf.reduce_any(frame.size != screen)
    return is_other | frame.is_transparent if channels == 4 else is_other


def is_other_bmp(data: tf.Tensor, head: tf.Tensor, *, channels: int) -> tf.Tensor:
    """Whether a BMP, string [] with first bytes int32 [HEADER_BYTES], would be seen otherwise: bool []."""
    information, bits = head[14] + 256 * head[15], head[28]
    has_masks = head[30] == _MASKS
    is_other = (information < 40) | tf.reduce_all(bits != [8, 24, 32])
    is_other |= ~(has_masks | (head[30] == 0)) | (has_masks & tf.reduce_any(head[54:66] != _BGR))
    is_other |= (bits == 8) & ~_has_grey_ramp(data, information)
    if channels == 4:
        has_alpha = has_masks & (information >= 56) & tf.reduce_all(head[66:70] == _ALPHA)
        is_other |= (bits == 32) & ~has_alpha
    return is_other


@apart
def is_other_webp(data: tf.Tensor, head: tf.Tensor) -> tf.Tensor:
    """Whether a WebP, string [] with first bytes int32 [HEADER_BYTES], says that it is turned: bool []."""
    has_exif = (head[15] == ord("X")) & (head[20] & _WEBP_EXIF > 0)
    return tf.cond(has_exif, lambda: _is_turned(_webp_chunk(data, "EXIF")), lambda: tf.constant(False))


@apart
def _is_other_with_alpha(data: tf.Tensor, depth: tf.Tensor, colour: tf.Tensor) -> tf.Tensor:
    is_transparent = _png_chunk(data, "tRNS") != ""
    return tf.where(depth < 8, ~((colour == _PALETTE) & is_transparent), is_transparent)


@apart
def _is_turned_png(data: tf.Tensor) -> tf.Tensor:
    return _is_turned(_png_chunk(data, "eXIf"))


def _is_turned(exif: tf.Tensor) -> tf.Tensor:
    has_name = tf.strings.substr(exif + "\0" * 6, 0, 6) == _EXIF
    return orientation.of_tiff(tf.where(has_name, _part(exif, 6, 1 << 20), exif)) != orientation.UPRIGHT


def _has_grey_ramp(data: tf.Tensor, information: tf.Tensor) -> tf.Tensor:
    """Whether a pixel's number is its level, as TensorFlow takes it to be: so grey pictures are stored."""
    start = tf.cast(_BMP_FILE_HEADER_BYTES + information, tf.int64)
    stored = tf.io.decode_raw(_part(data, start, _RAMP_BYTES), tf.uint8, fixed_length=_RAMP_BYTES)
    levels = tf.reshape(stored, [256, 4])[:, :3]
    return tf.reduce_all(levels == tf.cast(tf.range(256), tf.uint8)[:, None])


def _png_chunk(data: tf.Tensor, name: str) -> tf.Tensor:
    """The content of the first chunk of this name that stands before the pixels; empty without one."""

    def goes_on(at: tf.Tensor) -> tf.Tensor:
        found = _part(data, at + 4, 4)
        return (found != name) & (found != "IDAT") & (found != "")

    def length(at: tf.Tensor) -> tf.Tensor:
        return _number(_part(data, at, 4), [24, 16, 8, 0])

    start = tf.constant(_PNG_CHUNKS, tf.int64)
    (at,) = tf.while_loop(goes_on, lambda at: [at + 12 + length(at)], [start])
    return tf.where(_part(data, at + 4, 4) == name, _part(data, at + 8, length(at)), "")


def _webp_chunk(data: tf.Tensor, name: str) -> tf.Tensor:
    """The content of the first chunk of this name; empty without one."""

    def goes_on(at: tf.Tensor) -> tf.Tensor:
        found = _part(data, at, 4)
        return (found != name) & (found != "")

    def length(at: tf.Tensor) -> tf.Tensor:
        return _number(_part(data, at + 4, 4), [0, 8, 16, 24])

    start = tf.constant(_WEBP_CHUNKS, tf.int64)
    (at,) = tf.while_loop(goes_on, lambda at: [at + 8 + length(at) + length(at) % 2], [start])
    return _part(data, at + 8, length(at))


def _number(text: tf.Tensor, shifts: list[int]) -> tf.Tensor:
    """Four bytes as a number, int64 []."""
    values = tf.cast(tf.io.decode_raw(text, tf.uint8, fixed_length=4), tf.int64)
    return tf.reduce_sum(tf.bitwise.left_shift(values, tf.constant(shifts, tf.int64)))


def _part(data: tf.Tensor, start: tf.Tensor | int, length: tf.Tensor | int) -> tf.Tensor:
    """The bytes [start, start + length) of a string [], as far as there are any."""
    end = tf.cast(tf.strings.length(data), tf.int64)
    return tf.strings.substr(data, tf.minimum(tf.cast(start, tf.int64), end), tf.cast(length, tf.int64))
