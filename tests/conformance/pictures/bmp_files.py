"""BMP files of every header, depth and mask, written byte by byte."""

import struct

import numpy as np

HEADERS = (12, 40, 52, 56, 64, 108, 124)  # bytes; OS/2 1, Windows 3, its extensions, OS/2 2, 4 and 5
RGB, RLE8, RLE4, MASKS, ALPHA_MASKS = 0, 1, 2, 3, 6  # compression
# Red, green, blue, alpha.
MASKS_OF = {
    16: {"565": (0xF800, 0x7E0, 0x1F, 0), "555": (0x7C00, 0x3E0, 0x1F, 0)},
    24: {"bgr": (0xFF0000, 0xFF00, 0xFF, 0)},
    32: {
        "bgrx": (0xFF0000, 0xFF00, 0xFF, 0),
        "bgra": (0xFF0000, 0xFF00, 0xFF, 0xFF000000),
        "rgba": (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
        "abgr": (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
        "xbgr": (0xFF000000, 0xFF0000, 0xFF00, 0),
    },
}
_FILE_HEADER_BYTES = 14


def bmp(
    rng: np.random.Generator,
    height: int,
    width: int,
    *,
    depth: int,
    header: int = 40,
    compression: int = RGB,
    masks: tuple[int, ...] = (),
    grey: bool = False,
    top_down: bool = False,
    gap: int = 0,
    trailing: int = 0,
) -> bytes:
    """Random samples. `grey`: the palette is a ramp; `gap`: bytes before the pixels; `trailing`: behind."""
    palette = _palette(rng, depth, entry=3 if header == 12 else 4, grey=grey)
    pixels = _pixels(rng, height, width, depth, compression)
    information = _information(height, width, depth, header, compression, masks, len(pixels), top_down)
    offset = _FILE_HEADER_BYTES + len(information) + len(palette) + gap
    size = offset + len(pixels)
    start = b"BM" + struct.pack("<IHHI", size, 0, 0, offset)
    return start + information + palette + b"\0" * gap + pixels + b"\0" * trailing


def _palette(rng: np.random.Generator, depth: int, *, entry: int, grey: bool) -> bytes:
    if depth > 8:
        return b""
    colours = rng.integers(0, 256, (1 << depth, entry), np.uint8)
    if grey:
        colours[:, :3] = np.linspace(0, 255, 1 << depth).astype(np.uint8)[:, None]
    colours[:, 3:] = 0
    return colours.tobytes()


def _information(
    height: int,
    width: int,
    depth: int,
    header: int,
    compression: int,
    masks: tuple[int, ...],
    size: int,
    top_down: bool,
) -> bytes:
    if header == 12:
        return struct.pack("<IHHHH", header, width, height, 1, depth)
    signed = -height if top_down else height
    fields = struct.pack("<IiiHHIIiiII", header, width, signed, 1, depth, compression, size, 0, 0, 0, 0)
    with_masks = fields + struct.pack(f"<{len(masks)}I", *masks)
    if header == 40 and masks:
        return with_masks[: 40 + 4 * (4 if compression == ALPHA_MASKS else 3)]
    return with_masks.ljust(header, b"\0")[:header]


def _pixels(rng: np.random.Generator, height: int, width: int, depth: int, compression: int) -> bytes:
    if compression in (RLE8, RLE4):
        # Runs of up to 255 equal pixels, each row ended, then the picture.
        value = lambda: int(rng.integers(0, 256))  # noqa: E731
        runs = [min(255, width - at) for at in range(0, width, 255)]
        row = lambda: b"".join(bytes([run, value()]) for run in runs) + b"\0\0"  # noqa: E731
        return b"".join(row() for _ in range(height)) + b"\0\1"
    row_bytes = (width * depth + 31) // 32 * 4
    return rng.integers(0, 256, height * row_bytes, np.uint8).tobytes()
