"""Files of lines, cut into byte ranges that begin and end where a line does."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from beam_jobs.sources import files
from beam_jobs.sources.byte_streams import ByteStream
from beam_jobs.sources.source import Input, Piece
from pipeline.base.errors import InputError
from pipeline.data.origins.files import LINE_FEED

_READ_BYTES = 1 << 20  # 1 MiB
_ROW_BYTES = 128 << 20  # 128 MiB: a worker holds a row several times

_Cut = Callable[[pa.NativeFile, int], int]  # file, offset → the first offset from there to cut at


def pieces(inputs: Iterable[Input], *, piece_bytes: int, cut: _Cut | None = None) -> list[Piece]:
    """Cuts files into ranges of about `piece_bytes`; reads only the bytes around the cuts.

    A compressed file is one piece. By default the cut is after a newline.
    """
    found = files.one_piece_a_file(inputs)
    found = [dataclasses.replace(piece, line_ends=LINE_FEED) for piece in found]
    return [part for piece in found for part in cut_at(piece, piece_bytes, cut or _after_newline)]


def cut_at(piece: Piece, piece_bytes: int, cut: _Cut) -> list[Piece]:
    """Cuts `piece` into ranges; a compressed file stays whole."""
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
    begun: list[bytes] = []  # of the line that goes on: joined once, because lines may be long
    for block in blocks(piece):
        first, *others = block.split(b"\n")
        begun.append(first)
        if others:
            yield b"".join(begun).removesuffix(b"\r")
            *whole, rest = others
            yield from (line.removesuffix(b"\r") for line in whole)
            begun = [rest]
        else:
            check_length(sum(map(len, begun)), "line", piece.paths[0])
    if last := b"".join(begun):
        yield last.removesuffix(b"\r")


class NumberedLines:
    """The lines of a piece that are not blank, each with its number from 1; `count` is of the last read."""

    def __init__(self, piece: Piece) -> None:
        self.count = 0
        self._piece = piece

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for line in read(self._piece):
            self.count += 1
            if line.strip():
                yield self.count, line


def blocks(piece: Piece) -> Iterator[bytes]:
    """The bytes of a piece, decompressed, 1 MiB at a time."""
    [path] = piece.paths
    with ByteStream(path, start=piece.start, end=piece.end) as stream:
        while block := stream.read(_READ_BYTES):
            yield block


def check_length(size: int, unit: str, path: str) -> None:
    """Raises InputError if a row of `size` bytes, a line or another `unit`, is more than a worker takes."""
    if size > _ROW_BYTES:
        raise InputError(
            f"input {path}",
            received=f"a {unit} of more than {_ROW_BYTES >> 20} MiB",
            expected="rows of text with a newline behind each",
            action="Check the file's format (--format), and how it was written; of text, also --text_unit.",
        )


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
