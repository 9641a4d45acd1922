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
from beam_jobs.sources.source import Input, InputSplit, RawRows

_TEXT_COLUMN = "text"
UNITS = ("line", "paragraph", "document")
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_READ_BYTES = 1 << 20  # 1 MiB


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFiles:
    """Lines, or paragraphs with blank lines between them, from byte ranges of large files; or whole files.

    Blank lines are not rows. Small documents share an input split in the order of their paths, so that they
    can be packed together.
    """

    unit: Literal["line", "paragraph", "document"] = "line"
    split_bytes: int = files.SPLIT_BYTES
    batch_rows: int = 1 << 14

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        if self.unit == "document":
            return list(_grouped(files.one_split_a_file(inputs), self.split_bytes))
        cut = _after_blank_line if self.unit == "paragraph" else None
        return lines.input_splits(inputs, split_bytes=self.split_bytes, cut=cut)

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        if self.unit == "document":
            yield from (_document(input_split, number) for number in range(len(input_split.paths)))
            return
        read = lines.NumberedLines(input_split)
        numbered = read if self.unit == "line" else _paragraphs(input_split, read)
        for batch in in_batches(numbered, at_most=self.batch_rows, size=lambda row: len(row[1])):
            numbers, values = zip(*batch, strict=True)
            yield _raw_rows(input_split, values, np.array(numbers, np.int64))
        if input_split.end is not None:
            yield dataclasses.replace(_raw_rows(input_split, [], np.zeros(0, np.int64)), lines=read.count)


def _raw_rows(input_split: InputSplit, values: Sequence[bytes], numbers: np.ndarray) -> RawRows:
    return RawRows(
        columns=pa.record_batch({_TEXT_COLUMN: pa.array(values, pa.binary())}),
        sources=input_split.name,
        numbers=numbers,
        undecoded=True,
    )


def _document(input_split: InputSplit, number: int) -> RawRows:
    path = input_split.paths[number]
    text, size = [], 0
    for block in lines.blocks(dataclasses.replace(input_split, paths=(path,))):
        text.append(block)
        size += len(block)
        lines.check_length(size, "document", path)
    return RawRows(
        columns=pa.record_batch({_TEXT_COLUMN: pa.array([b"".join(text)], pa.binary())}),
        sources=path.removeprefix(input_split.root),
        files=np.array([number]),
        undecoded=True,
    )


def _paragraphs(
    input_split: InputSplit, numbered: Iterable[tuple[int, bytes]]
) -> Iterator[tuple[int, bytes]]:
    """Yields paragraphs with the numbers of their first lines; a gap in the numbers begins a new
    paragraph.
    """
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
        lines.check_length(size, "paragraph", input_split.paths[0])
        last = number
    if begun:
        yield first, b"\n".join(begun)


def _after_blank_line(stream: pa.NativeFile, offset: int) -> int:
    """Returns the offset after the first blank line from `offset` on, or the end of the file."""
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


def _grouped(found: list[InputSplit], split_bytes: int) -> Iterator[InputSplit]:
    """Joins the input splits of each split into larger ones of about `split_bytes`, in the order of their
    paths.
    """
    for _, of_split in itertools.groupby(
        sorted(found, key=lambda input_split: (input_split.split, input_split.paths)),
        key=lambda input_split: input_split.split,
    ):
        yield from map(_joined, in_batches(of_split, size=lambda part: part.bytes, most_bytes=split_bytes))


def _joined(group: list[InputSplit]) -> InputSplit:
    return dataclasses.replace(
        group[0],
        paths=tuple(path for input_split in group for path in input_split.paths),
        stamps=tuple(stamp for input_split in group for stamp in input_split.stamps),
        bytes=sum(input_split.bytes for input_split in group),
    )
