"""Files of lines, cut into byte ranges that begin and end where a line does."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from beam_jobs.sources.pieces import files
from beam_jobs.sources.pieces.source import Input, Piece

_READ_BYTES = 1 << 20  # 1 MiB

_Cut = Callable[[pa.NativeFile, int], int]  # file, offset → the first offset from there to cut at


def pieces(inputs: Iterable[Input], *, piece_bytes: int, cut: _Cut | None = None) -> list[Piece]:
    """Ranges of about `piece_bytes`. Only the bytes around the cuts are read.

    A compressed file is one piece. By default the cut is after a newline.
    """
    found = files.one_piece_a_file(inputs)
    return [part for piece in found for part in cut_at(piece, piece_bytes, cut or _after_newline)]


def cut_at(piece: Piece, piece_bytes: int, cut: _Cut) -> list[Piece]:
    """`piece` as ranges; a compressed file stays whole."""
    [path] = piece.paths
    nominal = [end for _, end in files.ranges(piece.bytes, piece_bytes)][:-1]
    if not nominal or files.is_compressed(path):
        return [piece]
    with files.open_seekable(path) as stream:
        inner = {cut(stream, offset) for offset in nominal} - {0, piece.bytes}
    ends = sorted({0, piece.bytes, *inner})
    return [
        dataclasses.replace(piece, start=start, end=end, bytes=end - start)
        for start, end in itertools.pairwise(ends)
    ]


def read(piece: Piece) -> Iterator[bytes]:
    """The lines of a piece, without their ends (\\n or \\r\\n)."""
    rest = b""
    for block in blocks(piece):
        *whole, rest = (rest + block).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in whole)
    if rest:
        yield rest.removesuffix(b"\r")


def blocks(piece: Piece) -> Iterator[bytes]:
    """The bytes of a piece, decompressed, 1 MiB at a time."""
    [path] = piece.paths
    if piece.end is None:
        with files.open_stream(path) as stream:
            while block := stream.read(_READ_BYTES):
                yield block
        return
    with files.open_seekable(path) as stream:
        stream.seek(piece.start)
        left = piece.end - piece.start
        while left and (block := stream.read(min(_READ_BYTES, left))):
            left -= len(block)
            yield block


def _after_newline(stream: pa.NativeFile, offset: int) -> int:
    # From one byte before, because a line may begin at `offset`.
    stream.seek(offset - 1)
    at = offset - 1
    while block := stream.read(_READ_BYTES):
        newline = block.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += len(block)
    return at
