"""The size of a plain JPEG that decodes, for a fraction of what opening it with an image library costs.

Plain is what cameras and libraries write by default: 8 bits, grey or colour, all of it in one scan. libjpeg
decodes its tables and first pixels; what comes behind is searched for markers that do not belong there.
"""

import re
import struct

import PIL.Image

_START, _START_OF_SCAN, _END_OF_IMAGE = b"\xff\xd8", 0xDA, b"\xff\xd9"
_ONE_SCAN_FRAMES = (0xC0, 0xC1)  # baseline and extended sequential
# Tables, restart interval, comment, what applications add: each tells its length, by which libjpeg steps on.
_SEGMENTS = frozenset((0xC4, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)))
_FRAME_HEADER_BYTES = 10  # from its marker to its number of components
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # less what occurs within a scan
_ENOUGH_OF_A_SCAN = 1024  # bytes: its own header, and some pixels
_PLAIN = ((8, 1), (8, 3))  # bits, components
_SIDE = 8  # of the blocks that libjpeg makes one pixel of, for which it need not transform them


def size_of(data: bytes) -> tuple[int, int] | None:
    """(width, height); None if `data` is anything but a plain JPEG without fault."""
    frame, scan = _headers(data)
    if frame is None:
        return None
    bits, height, width, components = frame
    if (bits, components) not in _PLAIN or not 0 < width * height <= PIL.Image.MAX_IMAGE_PIXELS:
        return None
    end = _MARKER.search(data, scan + 2)
    if end is None or end.group() != _END_OF_IMAGE:
        return None
    return (width, height) if _decodes(data[: scan + _ENOUGH_OF_A_SCAN], width, height) else None


def _headers(data: bytes) -> tuple[tuple[int, int, int, int] | None, int]:
    """The frame's (bits, height, width, components) and where the first scan starts.

    Walks exactly as libjpeg does: Pillow takes the size that we tell for granted when it fills its memory.
    """
    frame, at = None, len(_START)
    while data.startswith(_START) and at + _FRAME_HEADER_BYTES <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == _START_OF_SCAN:
            return frame, at
        if marker in _ONE_SCAN_FRAMES and frame is None:
            frame = struct.unpack_from(">BHHB", data, at + 4)
        elif marker not in _SEGMENTS:
            break
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None, 0


def _decodes(beginning: bytes, width: int, height: int) -> bool:
    size = -(-width // _SIDE), -(-height // _SIDE)
    try:
        PIL.Image.frombytes("L", size, beginning + _END_OF_IMAGE, "jpeg", "L", "", _SIDE, 0)
    except (ValueError, OSError):
        return False
    return True
