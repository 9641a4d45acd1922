"""Reads the headers of JPEGs and PNGs in the graph: format, size, and which way up a picture is to be seen.

The conversion keeps a JPEG as it is, with its orientation; here it is turned. An image in a request, or in a
record that others wrote, has not gone through the conversion: it is refused if TensorFlow would decode it to
other pixels than a person sees. A small file can declare gigabytes of pixels, so no image is decoded before
its size is known.

Cameras store what the sensor saw, and how the camera was held (CIPA DC-008, 4.6.4 A: tag 0x0112). An
orientation is 1 to 8; 1, 2, 3 and 4 are unturned, mirrored, turned by 180 degrees and upside down; 5 to 8 are
the same after a transposition.
"""

import tensorflow as tf

from pipeline.base.tracing import tf_function
from pipeline.data.images.pixels import refuse_subtype

HEADER_BYTES = 48  # these bytes hold the size of a PNG, and its subtype
JPEG, PNG, UNKNOWN = range(3)
_JPEG_SIGNATURE, _PNG_SIGNATURE = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"
_GREY = 0  # a colour type of PNG (ISO 15948, 11.2.2)
# Byte at which a PNG's chunks begin; bytes of the second chunk's name.
_PNG_CHUNKS, _SECOND_NAME = 8, slice(37, 41)

UPRIGHT = 1
_NOTHING = -1
_TAG, _SHORT = 0x0112, 3
_ENTRY_BYTES = 12
_EXIF = b"Exif\0\0"
_SEGMENT_START = 10  # bytes from the marker on: itself, the length, and the name of what follows
_JFIF_MARKER, _JFIF_LENGTH, _AFTER_JFIF = 0xE0, 16, 20
_COMMENT = 0xFE
# Editors store the orientation in XMP, which Pillow obeys if EXIF has none. The pattern has \C because it
# matches bytes, not characters.
_TURNED_IN_XMP = r"\C*http://ns\.adobe\.com/xap/1\.0/\x00\C*tiff:Orientation(?:=\"|>)[2-8]\C*"
_XMP_BYTES = 1 << 17


def first_bytes(data: tf.Tensor) -> tf.Tensor:
    """The first bytes of files, string [...], padded with 0: int32 [..., HEADER_BYTES]."""
    return tf.cast(tf.io.decode_raw(data, tf.uint8, fixed_length=HEADER_BYTES), tf.int32)


def format_of(head: tf.Tensor) -> tf.Tensor:
    """First bytes, int32 [HEADER_BYTES] → JPEG, PNG or UNKNOWN, int32 [], by the whole signature."""
    is_jpeg, is_png = (
        tf.reduce_all(head[: len(signature)] == list(signature))
        for signature in (_JPEG_SIGNATURE, _PNG_SIGNATURE)
    )
    return tf.where(is_jpeg, JPEG, tf.where(is_png, PNG, UNKNOWN))


def png_size(head: tf.Tensor) -> tf.Tensor:
    """First bytes, int32 [HEADER_BYTES] → height and width, int64 [2] (ISO 15948, 11.2.2)."""
    return tf.stack([_big_endian(head[20:24]), _big_endian(head[16:20])])


def is_other_png(data: tf.Tensor, head: tf.Tensor, *, channels: int) -> tf.Tensor:
    """True where TensorFlow would decode a PNG, string [], with this head to other pixels: bool []."""
    depth, colour = head[24], head[25]
    is_other = (colour == _GREY) & (depth == 16)
    if channels == 4:  # TensorFlow turns a transparent colour into alpha in another way
        is_other |= depth != 8
    # In most files the pixels come next, so they need no search.
    has_more = tf.reduce_any(head[_SECOND_NAME] != list(b"IDAT"))
    return is_other | tf.cond(has_more, lambda: _is_turned_png(data), lambda: tf.constant(False))


def of_jpeg(data: tf.Tensor, head: tf.Tensor) -> tf.Tensor:
    """The orientation, int32 [], of a JPEG, string [], whose first bytes are `head`, int32 [HEADER_BYTES]."""
    return tf.cond(may_be_turned(head), lambda: _searched(data), lambda: tf.constant(UPRIGHT))


def may_be_turned(head: tf.Tensor) -> tf.Tensor:
    """True where JPEGs with these first bytes, int32 [..., HEADER_BYTES], must be searched: bool [...].

    JPEGs that libraries write need no search, which costs more than everything else in this file.
    """
    described = _is_skipped(head)
    length = head[..., 4] * 256 + head[..., 5]
    ends_with_jfif = tf.equal(head[..., 3], _JFIF_MARKER) & tf.equal(length, _JFIF_LENGTH)
    return described[..., 3] & ~(ends_with_jfif & ~described[..., _AFTER_JFIF + 1])


def upright(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
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


# Traced once in a process, not once in each graph that reads pictures: tracing these takes longer than the
# rest of a reader.
@tf_function
def _searched(data: tf.Tensor) -> tf.Tensor:
    found = _orientation_in(_exif(data))
    in_xmp = lambda: tf.strings.regex_full_match(_part(data, 0, _XMP_BYTES), _TURNED_IN_XMP)  # noqa: E731
    is_turned = tf.cond(tf.equal(found, _NOTHING), in_xmp, lambda: tf.constant(False))
    refused = refuse_subtype(is_turned, "JPEG")
    with tf.control_dependencies([refused] if refused is not None else []):
        return _valid(found)


@tf_function
def _is_turned_png(data: tf.Tensor) -> tf.Tensor:
    """Returns whether the eXIf chunk of a PNG, string [], turns it: bool []."""

    def goes_on(at: tf.Tensor) -> tf.Tensor:
        name = _part(data, at + 4, 4)
        return (name != "eXIf") & (name != "IDAT") & (name != "")

    def length(at: tf.Tensor) -> tf.Tensor:
        return _big_endian(tf.io.decode_raw(_part(data, at, 4), tf.uint8, fixed_length=4))

    start = tf.constant(_PNG_CHUNKS, tf.int64)
    (at,) = tf.while_loop(goes_on, lambda at: [at + 12 + length(at)], [start])
    exif = tf.where(_part(data, at + 4, 4) == "eXIf", _part(data, at + 8, length(at)), "")
    has_name = _part(exif, 0, len(_EXIF)) == _EXIF
    return _valid(_orientation_in(tf.where(has_name, _part(exif, len(_EXIF), 1 << 20), exif))) != UPRIGHT


@tf_function
def _moved(part: tf.Tensor, size: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    opposite = tf.cast(size, tf.int32) - part[:2] - part[2:]
    corner = tf.where(_is_reversed(orientation), opposite, part[:2])
    is_transposed = _is_transposed(orientation)
    corner, extent = (tf.where(is_transposed, pair[::-1], pair) for pair in (corner, part[2:]))
    return tf.concat([corner, extent], axis=0)


@tf_function
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
    """Returns whether rows, and columns, are seen in reverse order: bool [2]."""
    of_rows = tf.constant([False, False, False, True, True, False, False, True, True])
    of_columns = tf.constant([False, False, True, True, False, False, True, True, False])
    return tf.stack([of_rows[orientation], of_columns[orientation]])


def _is_skipped(marker: tf.Tensor) -> tf.Tensor:
    """True where a segment may precede EXIF data: an application's, or a comment (ITU T.81, table B.1)."""
    return tf.equal(marker // 16, 0xE) | tf.equal(marker, _COMMENT)


def _exif(data: tf.Tensor) -> tf.Tensor:
    """The first EXIF segment from its TIFF header on, string []; empty without one."""

    def start(at: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        start = _part(data, at, _SEGMENT_START)
        return start, tf.cast(tf.io.decode_raw(start, tf.uint8, fixed_length=_SEGMENT_START), tf.int32)

    def is_exif(start: tf.Tensor) -> tf.Tensor:
        return tf.equal(_part(start, 4, 6), _EXIF)

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
    return _part(data, at + _SEGMENT_START, length)


def _orientation_in(tiff: tf.Tensor) -> tf.Tensor:
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
    """Returns `said` if it is an orientation, else UPRIGHT."""
    return tf.where((said >= 1) & (said <= 8), said, UPRIGHT)


def _big_endian(values: tf.Tensor) -> tf.Tensor:
    """Four bytes as a number, int64 []."""
    return tf.reduce_sum(tf.bitwise.left_shift(tf.cast(values, tf.int64), [24, 16, 8, 0]))


def _part(data: tf.Tensor, start: tf.Tensor | int, length: tf.Tensor | int) -> tf.Tensor:
    """The bytes [start, start + length) of a string [], as far as there are any."""
    end = tf.cast(tf.strings.length(data), tf.int64)
    return tf.strings.substr(data, tf.minimum(tf.cast(start, tf.int64), end), tf.cast(length, tf.int64))
