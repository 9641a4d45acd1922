"""Which images TensorFlow decodes to other pixels than they are seen with, without a word; in the graph.

The conversion refuses them, and says more (`beam_jobs/cells/image_formats.py`). An image of a request, or of
a record that others wrote, has not met the conversion.
"""

from typing import NamedTuple

import tensorflow as tf

from pipeline.base.tracing import apart
from pipeline.data.images.pixels import refuse_subtype

# --- Which way up a JPEG is meant to be seen, by its EXIF data, and turning its pixels that way; in the
# graph.
#
# Cameras store what the sensor saw, and how the camera was held (CIPA DC-008, 4.6.4 A: tag 0x0112). An
# orientation is 1 to 8; 1, 2, 3 and 4 are unturned, mirrored, turned by 180 degrees and upside down; 5 to 8
# are the same after a transposition. `beam_jobs/cells/image_formats.py` finds it in the same way.


UPRIGHT = 1
_NOTHING = -1
_TAG, _SHORT = 0x0112, 3
_ENTRY_BYTES = 12
_EXIF = b"Exif\0\0"
_SEGMENT_START = 10  # bytes from the marker on: itself, the length, and the name of what follows
_JFIF_MARKER, _JFIF_LENGTH, _AFTER_JFIF = 0xE0, 16, 20
_COMMENT = 0xFE
# Editors say it in XMP, which Pillow obeys where EXIF says nothing: bytes, not characters, hence \C.
_TURNED_IN_XMP = r"\C*http://ns\.adobe\.com/xap/1\.0/\x00\C*tiff:Orientation(?:=\"|>)[2-8]\C*"
_XMP_BYTES = 1 << 17


def orientation_of_jpeg(data: tf.Tensor, head: tf.Tensor) -> tf.Tensor:
    """The orientation, int32 [], of a JPEG, string [], whose first bytes are `head`, int32 [32]."""
    return tf.cond(may_be_turned(head), lambda: _searched(data), lambda: tf.constant(UPRIGHT))


def may_be_turned(head: tf.Tensor) -> tf.Tensor:
    """First bytes of JPEGs, int32 [..., 32] → whether they are to be searched for an orientation, bool [...].

    What libraries write is not searched, which costs more than the rest of this file.
    """
    described = _is_skipped(head)
    length = head[..., 4] * 256 + head[..., 5]
    ends_with_jfif = tf.equal(head[..., 3], _JFIF_MARKER) & tf.equal(length, _JFIF_LENGTH)
    return described[..., 3] & ~(ends_with_jfif & ~described[..., _AFTER_JFIF + 1])


def orientation_of_tiff(tiff: tf.Tensor) -> tf.Tensor:
    """The orientation, int32 [], that EXIF data say, string [] from its TIFF header on."""
    return _valid(_said(tiff))


def turn_upright(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """Pixels as stored, [height, width, channels] → as seen."""
    return tf.cond(tf.equal(orientation, UPRIGHT), lambda: image, lambda: _turned(image, orientation))


def seen_size(size: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """Height and width, [2], as stored → as seen."""
    return tf.where(_is_transposed(orientation), size[::-1], size)


def stored_part(part: tf.Tensor, size: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """A part of the picture as seen → the same part as stored: int32 [4] (top, left, height, width).

    Args:
      size: the picture's height and width as seen, [2].
    """
    return tf.cond(tf.equal(orientation, UPRIGHT), lambda: part, lambda: _moved(part, size, orientation))


# Once a process, not once a graph that reads pictures: tracing these takes longer than the rest of a reader.
@apart
def _searched(data: tf.Tensor) -> tf.Tensor:
    said = _said(_exif(data))
    in_xmp = lambda: tf.strings.regex_full_match(_stored_bytes(data, 0, _XMP_BYTES), _TURNED_IN_XMP)  # noqa: E731
    is_turned = tf.cond(tf.equal(said, _NOTHING), in_xmp, lambda: tf.constant(False))
    refused = refuse_subtype(is_turned, "JPEG")
    with tf.control_dependencies([refused] if refused is not None else []):
        return _valid(said)


@apart
def _moved(part: tf.Tensor, size: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    opposite = tf.cast(size, tf.int32) - part[:2] - part[2:]
    corner = tf.where(_is_reversed(orientation), opposite, part[:2])
    is_transposed = _is_transposed(orientation)
    corner, extent = (tf.where(is_transposed, pair[::-1], pair) for pair in (corner, part[2:]))
    return tf.concat([corner, extent], axis=0)


@apart
def _turned(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    transposed = tf.cond(
        _is_transposed(orientation), lambda: tf.transpose(image, [1, 0, 2]), lambda: tf.identity(image)
    )
    dims = tf.concat([_is_reversed(orientation), [False]], axis=0)
    turned = tf.raw_ops.Reverse(tensor=transposed, dims=dims)
    return tf.ensure_shape(turned, [None, None, image.shape[2]])


def _is_transposed(orientation: tf.Tensor) -> tf.Tensor:
    return orientation >= 5


def _is_reversed(orientation: tf.Tensor) -> tf.Tensor:
    """Whether rows, and columns, are seen in reverse order: bool [2]."""
    of_rows = tf.constant([False, False, False, True, True, False, False, True, True])
    of_columns = tf.constant([False, False, True, True, False, False, True, True, False])
    return tf.stack([of_rows[orientation], of_columns[orientation]])


def _is_skipped(marker: tf.Tensor) -> tf.Tensor:
    """Whether a segment may stand before EXIF data: of an application, or a comment (ITU T.81, table B.1)."""
    return tf.equal(marker // 16, 0xE) | tf.equal(marker, _COMMENT)


def _exif(data: tf.Tensor) -> tf.Tensor:
    """The first EXIF segment from its TIFF header on, string []; empty without one."""

    def start(at: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        start = _stored_bytes(data, at, _SEGMENT_START)
        return start, tf.cast(tf.io.decode_raw(start, tf.uint8, fixed_length=_SEGMENT_START), tf.int32)

    def is_exif(start: tf.Tensor) -> tf.Tensor:
        return tf.equal(tf.strings.substr(_padded(start), 4, 6), _EXIF)

    def goes_on(at: tf.Tensor) -> tf.Tensor:
        text, values = start(at)
        return (values[0] == 0xFF) & _is_skipped(values[1]) & ~is_exif(text)

    def following(at: tf.Tensor) -> list[tf.Tensor]:
        _, values = start(at)
        return [at + 2 + values[2] * 256 + values[3]]

    (at,) = tf.while_loop(goes_on, following, [tf.constant(2)])
    text, values = start(at)
    found = is_exif(text) & (values[1] == 0xE1)
    length = tf.where(found, tf.maximum(values[2] * 256 + values[3] - (_SEGMENT_START - 2), 0), 0)
    return _stored_bytes(data, at + _SEGMENT_START, length)


def _said(tiff: tf.Tensor) -> tf.Tensor:
    """The number in the first directory (TIFF 6.0, 2), int32 []; _NOTHING where there is none."""
    values = tf.cast(tf.io.decode_raw(tiff, tf.uint8), tf.int32)
    values = tf.concat([values, tf.zeros([8], tf.int32)], axis=0)
    is_little = values[0] == ord("I")

    def number(pair: tf.Tensor) -> tf.Tensor:  # [..., 2] bytes
        return tf.where(is_little, pair[..., 0] + 256 * pair[..., 1], pair[..., 1] + 256 * pair[..., 0])

    size = tf.size(values) - 8
    # The offset's upper half is 0: a segment has at most 64 KiB.
    directory = tf.minimum(number(tf.where(is_little, values[4:6], values[6:8])), size)
    count = tf.minimum(number(values[directory : directory + 2]), (size - directory - 2) // _ENTRY_BYTES)
    first = directory + 2
    entries = values[first : first + tf.maximum(count, 0) * _ENTRY_BYTES]
    entries = tf.reshape(entries, [-1, _ENTRY_BYTES])
    is_it = tf.equal(number(entries[:, :2]), _TAG) & tf.equal(number(entries[:, 2:4]), _SHORT)
    found = tf.boolean_mask(number(entries[:, 8:10]), is_it)
    return tf.concat([found, [_NOTHING]], axis=0)[0]


def _valid(said: tf.Tensor) -> tf.Tensor:
    """`said` if it is an orientation, else UPRIGHT."""
    return tf.where((said >= 1) & (said <= 8), said, UPRIGHT)


def _padded(text: tf.Tensor) -> tf.Tensor:
    return text + b"\0" * _SEGMENT_START


def _stored_bytes(data: tf.Tensor, start: tf.Tensor, length: tf.Tensor | int) -> tf.Tensor:
    """The bytes [start, start + length) of a string [], as far as there are any."""
    return tf.strings.substr(data, tf.minimum(start, tf.strings.length(data)), length)


# --- Cuts the first frame of an animation out of its file, in the graph, so that no other frame is decoded.
#
# TensorFlow decodes all frames of an animated GIF to return one of them, and DecodeImage corrupts memory on
# an animated WebP (seen with 2.21).


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


def first_frame_of_gif(data: tf.Tensor) -> GifFrame:
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
    frame = _frame_bytes(data, tf.constant(0, tf.int64), header) + _frame_bytes(data, at, end - at) + b";"
    return GifFrame(frame, tf.where(is_frame, corner, 0), tf.where(is_frame, size, 0), is_transparent)


def first_frame_of_webp(data: tf.Tensor) -> tf.Tensor:
    """A WebP, string [] → a still one of its first frame, string []; a still image is returned as it is."""
    values = _values(data)
    is_animated = (_byte(values, 15) == ord("X")) & (_byte(values, 20) & _ANIMATED > 0)
    return tf.cond(is_animated, lambda: _still(data, values), lambda: data)


def _still(data: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """The first ANMF chunk's image (RFC 9649, 2.7.1.1) after a header with the frame's own size."""

    def is_other(at: tf.Tensor) -> tf.Tensor:
        return (at < tf.size(values, tf.int64)) & (_frame_bytes(data, at, 4) != b"ANMF")

    def past(at: tf.Tensor) -> list[tf.Tensor]:
        length = _little_endian_number(values, at + 4, 4)
        return [at + _CHUNK_HEADER_BYTES + length + length % 2]

    (at,) = tf.while_loop(is_other, past, [tf.constant(_RIFF_HEADER_BYTES, tf.int64)])
    frame = at + _CHUNK_HEADER_BYTES
    image = _frame_bytes(
        data, frame + _FRAME_HEADER_BYTES, _little_endian_number(values, at + 4, 4) - _FRAME_HEADER_BYTES
    )
    contents = b"WEBP" + tf.constant(_EXTENDED_WITH_ALPHA) + _frame_bytes(data, frame + 6, 6) + image
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


def _little_endian_number(values: tf.Tensor, at: tf.Tensor, length: int) -> tf.Tensor:
    """The little-endian number in these bytes: int64 []."""
    return tf.add_n([_byte(values, at + i) * (1 << 8 * i) for i in range(length)])


def _little_endian(number: tf.Tensor) -> tf.Tensor:
    """A number's four bytes, as a string []."""
    digits = tf.bitwise.right_shift(number, [0, 8, 16, 24]) & 0xFF
    return tf.strings.reduce_join(tf.gather(tf.constant(_BYTES), digits))


def _frame_bytes(data: tf.Tensor, start: tf.Tensor, length: tf.Tensor | int) -> tf.Tensor:
    """The bytes [start, start + length) of a string [], as far as there are any."""
    end = tf.cast(tf.strings.length(data), tf.int64)
    return tf.strings.substr(data, tf.minimum(start, end), tf.cast(length, tf.int64))


_GREY, _COLOUR, _PALETTE = 0, 2, 3  # colour types of PNG (ISO 15948, 11.2.2)
_PNG_CHUNKS, _SECOND_NAME = 8, slice(37, 41)  # where a PNG's chunks begin; the second one's name
_WEBP_CHUNKS, _WEBP_EXIF = 12, 0x08
_BMP_FILE_HEADER_BYTES, _RAMP_BYTES = 14, 4 * 256
_MASKS = 3
_BGR, _ALPHA = [0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 0], [0, 0, 0, 255]  # masks, little-endian
_EXIF_CHUNK = "Exif\0\0"


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
    has_name = tf.strings.substr(exif + "\0" * 6, 0, 6) == _EXIF_CHUNK
    return orientation_of_tiff(tf.where(has_name, _part_of(exif, 6, 1 << 20), exif)) != UPRIGHT


def _has_grey_ramp(data: tf.Tensor, information: tf.Tensor) -> tf.Tensor:
    """Whether a pixel's number is its level, as TensorFlow takes it to be: so grey pictures are stored."""
    start = tf.cast(_BMP_FILE_HEADER_BYTES + information, tf.int64)
    stored = tf.io.decode_raw(_part_of(data, start, _RAMP_BYTES), tf.uint8, fixed_length=_RAMP_BYTES)
    levels = tf.reshape(stored, [256, 4])[:, :3]
    return tf.reduce_all(levels == tf.cast(tf.range(256), tf.uint8)[:, None])


def _png_chunk(data: tf.Tensor, name: str) -> tf.Tensor:
    """The content of the first chunk of this name that stands before the pixels; empty without one."""

    def goes_on(at: tf.Tensor) -> tf.Tensor:
        found = _part_of(data, at + 4, 4)
        return (found != name) & (found != "IDAT") & (found != "")

    def length(at: tf.Tensor) -> tf.Tensor:
        return _png_number(_part_of(data, at, 4), [24, 16, 8, 0])

    start = tf.constant(_PNG_CHUNKS, tf.int64)
    (at,) = tf.while_loop(goes_on, lambda at: [at + 12 + length(at)], [start])
    return tf.where(_part_of(data, at + 4, 4) == name, _part_of(data, at + 8, length(at)), "")


def _webp_chunk(data: tf.Tensor, name: str) -> tf.Tensor:
    """The content of the first chunk of this name; empty without one."""

    def goes_on(at: tf.Tensor) -> tf.Tensor:
        found = _part_of(data, at, 4)
        return (found != name) & (found != "")

    def length(at: tf.Tensor) -> tf.Tensor:
        return _png_number(_part_of(data, at + 4, 4), [0, 8, 16, 24])

    start = tf.constant(_WEBP_CHUNKS, tf.int64)
    (at,) = tf.while_loop(goes_on, lambda at: [at + 8 + length(at) + length(at) % 2], [start])
    return _part_of(data, at + 8, length(at))


def _png_number(text: tf.Tensor, shifts: list[int]) -> tf.Tensor:
    """Four bytes as a number, int64 []."""
    values = tf.cast(tf.io.decode_raw(text, tf.uint8, fixed_length=4), tf.int64)
    return tf.reduce_sum(tf.bitwise.left_shift(values, tf.constant(shifts, tf.int64)))


def _part_of(data: tf.Tensor, start: tf.Tensor | int, length: tf.Tensor | int) -> tf.Tensor:
    """The bytes [start, start + length) of a string [], as far as there are any."""
    end = tf.cast(tf.strings.length(data), tf.int64)
    return tf.strings.substr(data, tf.minimum(tf.cast(start, tf.int64), end), tf.cast(length, tf.int64))
