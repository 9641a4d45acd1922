"""Plain text: a row is a line, a paragraph or a file. The one column is `text`."""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import pyarrow as pa

from beam_jobs.sources.bytes import lines
from beam_jobs.sources.bytes.batches import in_batches
from beam_jobs.sources.pieces import files
from beam_jobs.sources.pieces.source import Input, Piece, RawRows

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
            yield from map(_document, itertools.repeat(piece), piece.paths)
            return
        texts = lines.read(piece) if self.unit == "line" else _paragraphs(piece)
        numbered = ((number, text) for number, text in enumerate(texts, 1) if text.strip())
        for batch in in_batches(numbered, at_most=self.batch_rows, size=lambda row: len(row[1])):
            numbers, values = zip(*batch, strict=True)
            yield RawRows(
                columns=pa.record_batch({_TEXT_COLUMN: pa.array(values, pa.binary())}),
                sources=piece.name,
                numbers=np.array(numbers, np.int64),
                undecoded=True,
            )


def _document(piece: Piece, path: str) -> RawRows:
    text, size = [], 0
    for block in lines.blocks(dataclasses.replace(piece, paths=(path,))):
        text.append(block)
        size += len(block)
        lines.check_length(size, "document", path)
    return RawRows(
        columns=pa.record_batch({_TEXT_COLUMN: pa.array([b"".join(text)], pa.binary())}),
        sources=path.removeprefix(piece.root),
        numbers=np.ones(1, np.int64),
        undecoded=True,
    )


def _paragraphs(piece: Piece) -> Iterator[bytes]:
    for is_text, group in itertools.groupby(lines.read(piece), key=lambda line: bool(line.strip())):
        if is_text:
            yield b"\n".join(_checked(group, piece))


def _checked(paragraph: Iterable[bytes], piece: Piece) -> Iterator[bytes]:
    size = 0
    for line in paragraph:
        size += len(line) + 1
        lines.check_length(size, "paragraph", piece.paths[0])
        yield line


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
