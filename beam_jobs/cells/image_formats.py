"""Which subtypes of an image format a model would see otherwise than Pillow, told from the file's header.

TensorFlow (2.21) decodes them to other pixels without a word, or not at all. Each rule was measured:
`python -m tests.pictures` holds them all.
"""

import dataclasses
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping

import PIL.Image

_GREY, _COLOUR, _PALETTE = 0, 2, 3  # colour types of PNG (ISO 15948, 11.2.2)
_PNG_SIGNATURE_BYTES, _GIF_HEADER_BYTES, _BMP_FILE_HEADER_BYTES = 8, 13, 14
_EXTENSION, _FRAME, _GRAPHIC_CONTROL = 0x21, 0x2C, 0xF9
_NO_COMPRESSION, _MASKS = 0, 3
_BGR, _ALPHA = (0xFF0000, 0xFF00, 0xFF), 0xFF000000  # masks in which TensorFlow takes every pixel to be
_GREY_RAMP = b"".join(bytes([level] * 3) for level in range(256))


def subtype_difference(data: bytes, kind: str, *, channels: int) -> str:
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


# --- Checks JPEGs for a fraction of what decoding all of one with an image library costs.
#
# A plain JPEG is what cameras and libraries write by default: 8 bits, grey or colour, all of it in one scan.
# libjpeg decodes its tables and first pixels; the rest is searched for markers that do not belong there. A
# JPEG with an APP1 segment, in which cameras say which way up it is, is left to the image library.


# Markers (ITU T.81, table B.1).
START_OF_IMAGE, _START_OF_SCAN, _END_OF_IMAGE = b"\xff\xd8", b"\xff\xda", b"\xff\xd9"
_ONE_SCAN_FRAMES = (0xC0, 0xC1)  # baseline and extended sequential
# Tables, restart interval, comment, what applications add: each says its length, by which libjpeg steps on.
_SEGMENTS = frozenset((0xC4, 0xDB, 0xDD, 0xFE, 0xE0, *range(0xE2, 0xF0)))
_FRAME_HEADER_BYTES = 10  # from its marker to its number of components
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # less what occurs within a scan
_ENOUGH_OF_A_SCAN = 1024  # bytes: its own header, and some pixels
_PLAIN = ((8, 1), (8, 3))  # bits, components
_SIDE = 8  # of the blocks that libjpeg makes one pixel of: for that it need not transform them


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Frame:
    """What the frame header says, and the offset of the first scan."""

    bits: int
    height: int
    width: int
    components: int
    scan: int

    def is_plain(self, max_pixels: int) -> bool:
        return (self.bits, self.components) in _PLAIN and 0 < self.width * self.height <= max_pixels


def jpeg_size(data: bytes, *, max_pixels: int) -> tuple[int, int] | None:
    """(width, height); None if `data` is anything but a plain JPEG without fault of at most `max_pixels`."""
    frame = _frame(data)
    max_pixels = min(max_pixels, PIL.Image.MAX_IMAGE_PIXELS)
    if frame is None or not frame.is_plain(max_pixels) or not _is_last(frame.scan, data):
        return None
    return (frame.width, frame.height) if _decodes(data, frame) else None


def shortened_jpeg(data: bytes) -> bytes | None:
    """A JPEG whose last scan is whole, cut soon after that begins; other data as it is; None without an end.

    JPEG decoders refuse damaged headers, foreign markers and a missing end, and make some picture of nearly
    any bytes in between, so decoding all of a scan costs most of a conversion and finds hardly more. Of 4,000
    damaged files TensorFlow refused 119, decoding the whole with Pillow 106, this all but one of the 119.
    """
    if not data.startswith(START_OF_IMAGE):
        return data
    scan = data.rfind(_START_OF_SCAN)  # the encoder keeps these two bytes out of a scan
    if data.rfind(_END_OF_IMAGE) < scan:
        return None
    return data[: scan + _ENOUGH_OF_A_SCAN] + _END_OF_IMAGE if _is_last(scan, data) else data


def _is_last(scan: int, data: bytes) -> bool:
    """Whether the next marker after the one of the scan is the image's end."""
    end = _MARKER.search(data, scan + len(_START_OF_SCAN))
    return end is not None and end.group() == _END_OF_IMAGE


def _frame(data: bytes) -> _Frame | None:
    """The frame of the first scan; None without a frame of one scan before it.

    Walks exactly as libjpeg does: Pillow trusts the size that it is given when it fills its memory.
    """
    fields, at = None, len(START_OF_IMAGE)
    while data.startswith(START_OF_IMAGE) and at + _FRAME_HEADER_BYTES <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == _START_OF_SCAN[1]:
            return _Frame(**fields, scan=at) if fields else None
        if marker in _ONE_SCAN_FRAMES and fields is None:
            names = ("bits", "height", "width", "components")
            fields = dict(zip(names, struct.unpack_from(">BHHB", data, at + 4), strict=True))
        elif marker not in _SEGMENTS:
            break
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _decodes(data: bytes, frame: _Frame) -> bool:
    size = -(-frame.width // _SIDE), -(-frame.height // _SIDE)
    beginning = data[: frame.scan + _ENOUGH_OF_A_SCAN]
    try:
        PIL.Image.frombytes("L", size, beginning + _END_OF_IMAGE, "jpeg", "L", "", _SIDE, 0)
    except (ValueError, OSError):
        return False
    return True


# --- Which way up a JPEG is meant to be seen, as `pipeline/data/images/formats.py` finds it in the
# graph.


UPRIGHT, _FIRST_TRANSPOSED = 1, 5
_TAG, _SHORT = 0x0112, 3
_APPLICATION_1 = b"\xff\xe1"
_COMMENT = 0xFE
_EXIF = b"Exif\0\0"
_WHERE_PILLOW_LOOKS = {"exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp"}
_ENTRY_BYTES = 12


def orientation_of_jpeg(data: bytes) -> int:
    """1 to 8: what a model's input pipeline turns the picture by."""
    at = 2
    while data[at : at + 1] == b"\xff" and _is_skipped(data[at + 1 : at + 2]) and not _is_exif(data, at):
        at += 2 + int.from_bytes(data[at + 2 : at + 4].ljust(2, b"\0"), "big")
    if data[at : at + 2] != _APPLICATION_1 or not _is_exif(data, at):
        return UPRIGHT
    return _of_tiff(data[at + 10 : at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")])


def orientation_by_pillow(image: PIL.Image.Image) -> int:
    """1 to 8: what `PIL.ImageOps.exif_transpose` turns any image by; it also looks into XMP."""
    if not image.info.keys() & _WHERE_PILLOW_LOOKS:
        return UPRIGHT
    return _valid(image.getexif().get(_TAG, UPRIGHT))


def seen_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    """Width and height as stored → as seen."""
    return size[::-1] if orientation >= _FIRST_TRANSPOSED else size


def _valid(orientation: object) -> int:
    """`orientation` if it is one."""
    return orientation if orientation in range(1, 9) else UPRIGHT


def _is_skipped(marker: bytes) -> bool:
    return bool(marker) and (marker[0] >> 4 == 0xE or marker[0] == _COMMENT)


def _is_exif(data: bytes, at: int) -> bool:
    return data[at + 4 : at + 10] == _EXIF


def _of_tiff(tiff: bytes) -> int:
    """The orientation in the first directory (TIFF 6.0, 2)."""
    order = "little" if tiff[:1] == b"I" else "big"
    number = lambda start: int.from_bytes(tiff[start : start + 2], order)  # noqa: E731
    directory = number(4 if order == "little" else 6)
    count = min(number(directory), (len(tiff) - directory - 2) // _ENTRY_BYTES)
    for entry in range(directory + 2, directory + 2 + count * _ENTRY_BYTES, _ENTRY_BYTES):
        if (number(entry), number(entry + 2)) == (_TAG, _SHORT):
            return _valid(number(entry + 8))
    return UPRIGHT
