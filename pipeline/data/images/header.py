"""Format and size of an encoded image, read in the graph from its first bytes, before anything is decoded.

A small file can declare gigabytes of pixels. A format is recognised by its whole signature, so that no
decoder is given bytes whose size was not read here.
"""

import tensorflow as tf

HEADER_BYTES = 72  # they hold the size, in every format but JPEG, and the subtype

JPEG, PNG, GIF, WEBP, BMP, UNKNOWN = range(6)
# In the order of the formats; "?" stands for any byte. A PNG's size follows its 16 bytes.
_SIGNATURES = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR",
    b"GIF8",
    b"RIFF????WEBPVP8",
    b"BM",
    b"",
)
_SIGNATURE_BYTES = 16


def first_bytes(data: tf.Tensor) -> tf.Tensor:
    """The first bytes of a file, string [], padded with 0: int32 [HEADER_BYTES]."""
    return tf.cast(tf.io.decode_raw(data, tf.uint8, fixed_length=HEADER_BYTES), tf.int32)


def format_of(head: tf.Tensor) -> tf.Tensor:
    """First bytes, int32 [HEADER_BYTES] → JPEG, PNG, GIF, WEBP, BMP or UNKNOWN, int32 []."""
    expected = [
        [-1 if byte == ord("?") else byte for byte in signature] + [-1] * (_SIGNATURE_BYTES - len(signature))
        for signature in _SIGNATURES
    ]
    start = head[:_SIGNATURE_BYTES]
    fits = tf.reduce_all(tf.equal(start, expected) | tf.less(expected, 0), axis=1)
    return tf.argmax(tf.cast(fits, tf.int32), output_type=tf.int32)  # the first that fits


def png_size(head: tf.Tensor) -> tf.Tensor:
    """First bytes, int32 [HEADER_BYTES] → height and width, int64 [2] (ISO 15948, 11.2.2)."""
    big_endian = head[16:24][::-1]
    return tf.stack([_number(big_endian, 0, 4), _number(big_endian, 4, 4)])


def gif_size(head: tf.Tensor) -> tf.Tensor:
    """First bytes → height and width, int64 [2], of the screen that frames are drawn on (GIF89a, 18)."""
    return tf.stack([_number(head, 8, 2), _number(head, 6, 2)])


def bmp_size(head: tf.Tensor) -> tf.Tensor:
    """First bytes → height and width, int64 [2], of a BITMAPINFOHEADER.

    The stored height is negative if the rows are stored from the top down.
    """
    return tf.abs(tf.stack([_signed(_number(head, 22, 4)), _signed(_number(head, 18, 4))]))


def webp_size(head: tf.Tensor) -> tf.Tensor:
    """First bytes → height and width, int64 [2], lossy, lossless or extended (RFC 9649, 2.5 to 2.7)."""
    lossy = tf.stack([_number(head, 28, 2) % (1 << 14), _number(head, 26, 2) % (1 << 14)])
    bits = _number(head, 21, 4)
    lossless = 1 + tf.stack([bits // (1 << 14) % (1 << 14), bits % (1 << 14)])
    extended = 1 + tf.stack([_number(head, 27, 3), _number(head, 24, 3)])
    kind = head[15]
    return tf.where(kind == ord("X"), extended, tf.where(kind == ord("L"), lossless, lossy))


def _number(values: tf.Tensor, start: int, length: int) -> tf.Tensor:
    """The little-endian number in these bytes: int64 []."""
    weights = tf.constant([1 << (8 * i) for i in range(length)], tf.int64)
    return tf.reduce_sum(tf.cast(values[start : start + length], tf.int64) * weights)


def _signed(number: tf.Tensor) -> tf.Tensor:
    return tf.where(number >= 1 << 31, number - (1 << 32), number)
