"""PNG files of every depth, colour type, palette and interlacing (ISO 15948), written byte by byte."""

import struct
import zlib

import numpy as np

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
DEPTHS = {GREY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GREY_ALPHA: (8, 16), RGBA: (8, 16)}
_SAMPLES = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
# First column and row, and steps, of Adam7's seven passes.
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def png(
    rng: np.random.Generator,
    height: int,
    width: int,
    *,
    colour: int,
    depth: int,
    interlaced: bool = False,
    transparent: bool = False,
    exif: bytes = b"",
) -> bytes:
    """Random samples; `transparent` adds a tRNS chunk, `exif` an eXIf chunk."""
    samples = rng.integers(0, 1 << depth, (height, width, _SAMPLES[colour]))
    chunks = [_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))]
    if exif:
        chunks.append(_chunk(b"eXIf", exif))
    if colour == PALETTE:
        chunks.append(_chunk(b"PLTE", rng.integers(0, 256, 3 << depth, np.uint8).tobytes()))
    if transparent:
        chunks.append(_chunk(b"tRNS", _transparency(rng, samples, colour, depth)))
    passes = _passes(samples) if interlaced else [samples]
    rows = b"".join(b"\0" + _packed(row, depth) for part in passes for row in part)
    chunks += [_chunk(b"IDAT", zlib.compress(rows)), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _passes(samples: np.ndarray) -> list[np.ndarray]:
    parts = [samples[top::down, left::right] for left, top, right, down in _ADAM7]
    return [part for part in parts if part.size]


def _packed(row: np.ndarray, depth: int) -> bytes:
    if depth == 16:
        return row.astype(">u2").tobytes()
    bits = row.reshape(-1, 1) >> np.arange(depth)[::-1] & 1
    return np.packbits(bits.astype(np.uint8)).tobytes()


def _transparency(rng: np.random.Generator, samples: np.ndarray, colour: int, depth: int) -> bytes:
    """Alphas of a palette, or the one sample that is transparent, which the picture has."""
    if colour == PALETTE:
        return rng.integers(0, 256, 1 << depth, np.uint8).tobytes()
    return samples[0, 0].astype(">u2").tobytes()


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
