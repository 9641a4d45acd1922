"""Which subtypes of an image format a model would see otherwise than Pillow, told from the file's header.

TensorFlow (2.21) decodes them to other pixels without a word, or not at all. Each rule was measured:
`python -m tests.pictures` holds them all.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping

_GREY, _COLOUR, _PALETTE = 0, 2, 3  # colour types of PNG (ISO 15948, 11.2.2)
_PNG_SIGNATURE_BYTES, _GIF_HEADER_BYTES, _BMP_FILE_HEADER_BYTES = 8, 13, 14
_EXTENSION, _FRAME, _GRAPHIC_CONTROL = 0x21, 0x2C, 0xF9
_NO_COMPRESSION, _MASKS = 0, 3
_BGR, _ALPHA = (0xFF0000, 0xFF00, 0xFF), 0xFF000000  # masks in which TensorFlow takes every pixel to be
_GREY_RAMP = b"".join(bytes([level] * 3) for level in range(256))


def difference(data: bytes, kind: str, *, channels: int) -> str:
    """What keeps a model from seeing the picture as it is; empty if nothing does.

    Args:
      data: a file that Pillow decodes, in the format `kind`.
      channels: how many the model takes.
    """
    find = _OF_KIND.get(kind)
    try:
        return find(data, channels) if find else ""
    except (IndexError, struct.error):  # a reader of it walked past the end
        return f"a {kind} that is cut off: save it again"


def _of_png(data: bytes, channels: int) -> str:
    if not _has_whole_chunks(data):
        return "a PNG with a damaged part, or none that ends it: save it again"
    depth, colour = data[24], data[25]
    if (colour, depth) == (_GREY, 16):
        return "a grey PNG of 16 bits, of which a model would see 8: save it with 8"
    if channels < 4:
        return ""
    is_transparent = b"tRNS" in _png_chunks(data)
    if depth < 8 and not (colour == _PALETTE and is_transparent):
        return f"a PNG of {depth} bit{'s' * (depth > 1)} for 4 channels: save it with 8"
    if colour == _COLOUR and depth == 16 and is_transparent:
        return "a PNG of 16 bits with a transparent colour for 4 channels: save it with 8"
    return ""


def _has_whole_chunks(data: bytes) -> bool:
    """Whether the checksums of all chunks are right up to IEND, which is there: Pillow checks fewer."""
    view, at, name = memoryview(data), _PNG_SIGNATURE_BYTES, b""
    while name != b"IEND":
        (length,) = struct.unpack_from(">I", data, at)
        name, end = data[at + 4 : at + 8], at + 8 + length
        if struct.unpack_from(">I", data, end) != (zlib.crc32(view[at + 4 : end]),):
            return False
        at = end + 4
    return True


def _png_chunks(data: bytes) -> Iterator[bytes]:
    """Names of the chunks up to the pixels."""
    at = _PNG_SIGNATURE_BYTES
    while at + 8 <= len(data) and data[at + 4 : at + 8] != b"IDAT":
        yield data[at + 4 : at + 8]
        at += 12 + int.from_bytes(data[at : at + 4], "big")


def _of_bmp(data: bytes, channels: int) -> str:
    offset, header = struct.unpack_from("<I", data, 10)[0], struct.unpack_from("<I", data, 14)[0]
    if header < 40 or len(data) < _BMP_FILE_HEADER_BYTES + header:
        return "a BMP in the format of OS/2: save it as PNG"
    width, height, _, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    if compression not in (_NO_COMPRESSION, _MASKS):
        return "a compressed BMP: save it as PNG"
    if bits not in (8, 24, 32) or (bits == 8 and not _has_grey_ramp(data, header, offset)):
        return f"a BMP {'with a palette' if bits <= 8 else f'of {bits} bits'}: save it as PNG"
    if compression == _MASKS and struct.unpack_from("<III", data, 54) != _BGR:
        return "a BMP with other masks than blue, green, red: save it as PNG"
    has_alpha = compression == _MASKS and header >= 56 and struct.unpack_from("<I", data, 66)[0] == _ALPHA
    if bits == 32 and channels == 4 and not has_alpha:
        return "a BMP of 32 bits without alpha for 4 channels: save it as PNG"
    pixels = abs(height) * ((width * bits + 31) // 32 * 4)
    if len(data) != offset + pixels:
        return f"a BMP of {len(data):,} bytes, whose header speaks of {offset + pixels:,}: save it again"
    return ""


def _has_grey_ramp(data: bytes, header: int, offset: int) -> bool:
    """Whether a pixel's number is its level, as TensorFlow takes it to be: so grey pictures are stored."""
    palette = data[_BMP_FILE_HEADER_BYTES + header : offset][: 4 * 256]
    return b"".join(palette[at : at + 3] for at in range(0, len(palette), 4)) == _GREY_RAMP


def _of_gif(data: bytes, channels: int) -> str:
    screen = struct.unpack_from("<HH", data, 6)
    at, is_transparent = _GIF_HEADER_BYTES + _table_bytes(data[10]), False
    while data[at] == _EXTENSION:
        is_transparent |= data[at + 1] == _GRAPHIC_CONTROL and bool(data[at + 3] & 1)
        at = _past_blocks(data, at + 2)
    if data[at] != _FRAME or struct.unpack_from("<HHHH", data, at + 1) != (0, 0, *screen):
        return "a GIF whose first frame is not as large as its screen: save it as PNG"
    _past_blocks(data, at + 11 + _table_bytes(data[at + 9]))
    if is_transparent and channels == 4:
        return "a transparent GIF for 4 channels: save it as PNG"
    return ""


def _table_bytes(flags: int) -> int:
    """Bytes of the colour table that these flags announce (GIF89a, 19 and 20)."""
    return 3 * (2 << (flags & 7)) if flags & 0x80 else 0


def _past_blocks(data: bytes, at: int) -> int:
    """The offset after a run of data blocks, each preceded by its length; one of length 0 ends it."""
    while data[at]:
        at += 1 + data[at]
    return at + 1


def _of_webp(data: bytes, channels: int) -> str:
    """By the flags of the extended header (RFC 9649, 2.7.1)."""
    del channels
    if data[12:16] == b"VP8X" and data[20] & 0x02:
        return "an animated WebP, on which TensorFlow's decoder aborts: convert it to a still image"
    return ""


_OF_KIND: Mapping[str, Callable[[bytes, int], str]] = {
    "PNG": _of_png,
    "BMP": _of_bmp,
    "GIF": _of_gif,
    "WEBP": _of_webp,
}
