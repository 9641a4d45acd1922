"""Cuts the first frame of an animation out of its file, in the graph, so that no other frame is decoded.

TensorFlow decodes all frames of an animated GIF to return one of them, and DecodeImage corrupts memory on an
animated WebP (seen with 2.21).
"""

from typing import NamedTuple

import tensorflow as tf

_GIF_HEADER_BYTES = 13
_EXTENSION, _IMAGE, _GRAPHIC_CONTROL = 0x21, 0x2C, 0xF9

_RIFF_HEADER_BYTES, _CHUNK_HEADER_BYTES, _FRAME_HEADER_BYTES = 12, 8, 16
_ANIMATED = 0x02
_EXTENDED_WITH_ALPHA = b"VP8X\x0a\0\0\0\x10\0\0\0"
_BYTES = [bytes([value]) for value in range(256)]


class GifFrame(NamedTuple):
    """The first frame of a GIF: where it stands on the screen, and how large it is; 0 without a frame."""

    file: tf.Tensor  # string [], of this frame alone
    corner: tf.Tensor  # int64 [2]: top and left
    size: tf.Tensor  # int64 [2]: height and width
    is_transparent: tf.Tensor  # bool []: an extension before it makes a colour transparent


def of_gif(data: tf.Tensor) -> GifFrame:
    """Leaves of a GIF, string [], its first frame alone, with no extension.

    An extension may make a colour transparent, and TensorFlow paints that black; Pillow reads its colour.
    """
    values = _values(data)
    header = _GIF_HEADER_BYTES + _table_bytes(_byte(values, 10))
    at, is_transparent = _past_extensions(values, header)
    left, top, width, height = (_byte(values, at + i) + 256 * _byte(values, at + i + 1) for i in (1, 3, 5, 7))
    end = _past_blocks(values, at + 11 + _table_bytes(_byte(values, at + 9)))
    corner, size = tf.stack([top, left]), tf.stack([height, width])
    is_frame = _byte(values, at) == _IMAGE
    frame = _part(data, tf.constant(0, tf.int64), header) + _part(data, at, end - at) + b";"
    return GifFrame(frame, tf.where(is_frame, corner, 0), tf.where(is_frame, size, 0), is_transparent)


def of_webp(data: tf.Tensor) -> tf.Tensor:
    """A WebP, string [] → a still one of its first frame, string []; a still image is returned as it is."""
    values = _values(data)
    is_animated = (_byte(values, 15) == ord("X")) & (_byte(values, 20) & _ANIMATED > 0)
    return tf.cond(is_animated, lambda: _still(data, values), lambda: data)


def _still(data: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """The first ANMF chunk's image (RFC 9649, 2.7.1.1) after a header with the frame's own size."""

    def is_other(at: tf.Tensor) -> tf.Tensor:
        return (at < tf.size(values, tf.int64)) & (_part(data, at, 4) != b"ANMF")

    def past(at: tf.Tensor) -> list[tf.Tensor]:
        length = _number(values, at + 4, 4)
        return [at + _CHUNK_HEADER_BYTES + length + length % 2]

    (at,) = tf.while_loop(is_other, past, [tf.constant(_RIFF_HEADER_BYTES, tf.int64)])
    frame = at + _CHUNK_HEADER_BYTES
    image = _part(data, frame + _FRAME_HEADER_BYTES, _number(values, at + 4, 4) - _FRAME_HEADER_BYTES)
    contents = b"WEBP" + tf.constant(_EXTENDED_WITH_ALPHA) + _part(data, frame + 6, 6) + image
    return b"RIFF" + _little_endian(tf.strings.length(contents)) + contents


def _table_bytes(flags: tf.Tensor) -> tf.Tensor:
    """Bytes of the colour table that these flags announce (GIF89a, 19 and 20)."""
    return tf.where(flags & 0x80 > 0, 3 * tf.bitwise.left_shift(tf.constant(2, tf.int64), flags & 7), 0)


def _past_extensions(values: tf.Tensor, at: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The offset after a run of extensions, and whether one of them makes a colour transparent."""

    def is_extension(at: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
        del found
        return _byte(values, at) == _EXTENSION

    def past(at: tf.Tensor, found: tf.Tensor) -> list[tf.Tensor]:
        is_control = _byte(values, at + 1) == _GRAPHIC_CONTROL
        return [_past_blocks(values, at + 2), found | (is_control & (_byte(values, at + 3) % 2 > 0))]

    at, found = tf.while_loop(is_extension, past, [at, tf.constant(False)])
    return at, found


def _past_blocks(values: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
    """The offset after a run of data blocks, each preceded by its length; one of length 0 ends it."""
    has_more = lambda at: _byte(values, at) > 0  # noqa: E731
    (at,) = tf.while_loop(has_more, lambda at: [at + 1 + _byte(values, at)], [at])
    return at + 1


def _values(data: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.io.decode_raw(data, tf.uint8), tf.int64)


def _byte(values: tf.Tensor, at: tf.Tensor | int) -> tf.Tensor:
    """The byte at an offset; 0 past the end, which ends every run."""
    end = tf.size(values, tf.int64)
    return tf.where(at < end, values[tf.minimum(tf.cast(at, tf.int64), end - 1)], 0)


def _number(values: tf.Tensor, at: tf.Tensor, length: int) -> tf.Tensor:
    """The little-endian number in these bytes: int64 []."""
    return tf.add_n([_byte(values, at + i) * (1 << 8 * i) for i in range(length)])


def _little_endian(number: tf.Tensor) -> tf.Tensor:
    """A number's four bytes, as a string []."""
    digits = tf.bitwise.right_shift(number, [0, 8, 16, 24]) & 0xFF
    return tf.strings.reduce_join(tf.gather(tf.constant(_BYTES), digits))


def _part(data: tf.Tensor, start: tf.Tensor, length: tf.Tensor | int) -> tf.Tensor:
    """The bytes [start, start + length) of a string [], as far as there are any."""
    end = tf.cast(tf.strings.length(data), tf.int64)
    return tf.strings.substr(data, tf.minimum(start, end), tf.cast(length, tf.int64))
