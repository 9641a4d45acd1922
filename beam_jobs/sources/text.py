"""Plain text: a row is a line, a paragraph or a file. The one column is `text`."""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from beam_jobs.sources import files, lines
from beam_jobs.sources.byte_streams import in_batches
from beam_jobs.sources.source import Input, Piece, RawRows

_TEXT_COLUMN = "text"
UNITS = ("line", "paragraph", "document")
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_READ_BYTES = 1 << 20  # 1 MiB


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFiles:
    """Lines, or paragraphs with blank lines between them, from byte ranges of large files; or whole files.

    Blank lines are no rows. Small documents share a piece in the order of their paths, so that they can be
    packed together.
    """

    unit: Literal["line", "paragraph", "document"] = "line"
    piece_bytes: int = files.PIECE_BYTES
    batch_rows: int = 1 << 14

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        if self.unit == "document":
            return list(_grouped(files.one_piece_a_file(inputs), self.piece_bytes))
        cut = _after_blank_line if self.unit == "paragraph" else None
        return lines.pieces(inputs, piece_bytes=self.piece_bytes, cut=cut)

    def read(self, piece: Piece) -> Iterator[RawRows]:
        if self.unit == "document":
            yield from (_document(piece, number) for number in range(len(piece.paths)))
            return
        read = lines.NumberedLines(piece)
        numbered = read if self.unit == "line" else _paragraphs(piece, read)
        for batch in in_batches(numbered, at_most=self.batch_rows, size=lambda row: len(row[1])):
            numbers, values = zip(*batch, strict=True)
            yield _raw_rows(piece, values, np.array(numbers, np.int64))
        if piece.end is not None:
            yield dataclasses.replace(_raw_rows(piece, [], np.zeros(0, np.int64)), lines=read.count)


def _raw_rows(piece: Piece, values: Sequence[bytes], numbers: np.ndarray) -> RawRows:
    return RawRows(
        columns=pa.record_batch({_TEXT_COLUMN: pa.array(values, pa.binary())}),
        sources=piece.name,
        numbers=numbers,
        undecoded=True,
    )


def _document(piece: Piece, number: int) -> RawRows:
    path = piece.paths[number]
    text, size = [], 0
    for block in lines.blocks(dataclasses.replace(piece, paths=(path,))):
        text.append(block)
        size += len(block)
        lines.check_length(size, "document", path)
    return RawRows(
        columns=pa.record_batch({_TEXT_COLUMN: pa.array([b"".join(text)], pa.binary())}),
        sources=path.removeprefix(piece.root),
        files=np.array([number]),
        undecoded=True,
    )


def _paragraphs(piece: Piece, numbered: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Each with the number of its first line: a line that does not follow the one before begins another."""
    begun: list[bytes] = []
    first = last = 0
    for number, line in numbered:
        if begun and number > last + 1:
            yield first, b"\n".join(begun)
            begun = []
        if not begun:
            first, size = number, 0
        begun.append(line)
        size += len(line) + 1
        lines.check_length(size, "paragraph", piece.paths[0])
        last = number
    if begun:
        yield first, b"\n".join(begun)


def _after_blank_line(stream: pa.NativeFile, offset: int) -> int:
    """The first offset behind a blank line that is found from `offset` on, or the end of the file."""
    stream.seek(offset)
    rest, at = b"", offset
    while block := stream.read(_READ_BYTES):
        found = _BLANK_LINE.search(rest + block)
        if found:
            return at - len(rest) + found.end()
        # The rest of a blank line may be in the next block.
        kept = re.search(rb"\n[ \t\r]*$", rest + block)
        at += len(block)
        rest = kept[0] if kept else b""
    return at


def _grouped(found: list[Piece], piece_bytes: int) -> Iterator[Piece]:
    """The pieces of each split joined to about `piece_bytes`, in the order of their paths."""
    for _, of_split in itertools.groupby(
        sorted(found, key=lambda piece: (piece.split, piece.paths)), key=lambda piece: piece.split
    ):
        group: list[Piece] = []
        for piece in of_split:
            group.append(piece)
            if sum(part.bytes for part in group) >= piece_bytes:
                yield _joined(group)
                group = []
        if group:
            yield _joined(group)


def _joined(group: list[Piece]) -> Piece:
    return dataclasses.replace(
        group[0],
        paths=tuple(path for piece in group for path in piece.paths),
        stamps=tuple(stamp for piece in group for stamp in piece.stamps),
        bytes=sum(piece.bytes for piece in group),
    )
