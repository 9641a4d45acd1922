"""Files of lines, cut into byte ranges that begin and end where a line does."""

import codecs
import dataclasses
import itertools
import shlex
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from beam_jobs.sources import files
from beam_jobs.sources.byte_streams import ByteStream
from beam_jobs.sources.source import Input, InputSplit
from pipeline.base.errors import InputError
from pipeline.data.origins.files import LINE_FEED

_CARRIAGE_RETURN = b"\r"
_READ_BYTES = 1 << 20  # 1 MiB
_ROW_BYTES = 128 << 20  # 128 MiB: a worker holds a row several times

_Cut = Callable[[pa.NativeFile, int], int]  # file, offset → the first offset from there to cut at


def input_splits(inputs: Iterable[Input], *, split_bytes: int, cut: _Cut | None = None) -> list[InputSplit]:
    """Cuts files into ranges of about `split_bytes`; reads only the bytes around the cuts.

    A compressed file is one input split. By default the cut is after a newline.
    """
    found = files.one_split_a_file(inputs)
    found = [dataclasses.replace(input_split, line_ends=LINE_FEED) for input_split in found]
    return [part for input_split in found for part in cut_at(input_split, split_bytes, cut or _after_newline)]


def cut_at(input_split: InputSplit, split_bytes: int, cut: _Cut) -> list[InputSplit]:
    """Cuts `input_split` into ranges; a compressed file stays whole."""
    [path] = input_split.paths
    nominal = [end for _, end in files.ranges(input_split.bytes, split_bytes)][:-1]
    if not nominal or files.is_compressed(path):
        return [input_split]
    with files.open_seekable(path) as stream:
        inner = {cut(stream, offset) for offset in nominal} - {0, input_split.bytes}
    ends = sorted({0, input_split.bytes, *inner})
    return [
        dataclasses.replace(input_split, start=start, end=end, bytes=end - start)
        for start, end in itertools.pairwise(ends)
    ]


def read(input_split: InputSplit) -> Iterator[bytes]:
    """The lines of an input split, without their ends (\\n or \\r\\n)."""
    begun: list[bytes] = []  # parts of the current line; joined once, because lines may be long
    for block in blocks(input_split):
        first, *others = block.split(b"\n")
        begun.append(first)
        if others:
            yield b"".join(begun).removesuffix(b"\r")
            *whole, rest = others
            yield from (line.removesuffix(b"\r") for line in whole)
            begun = [rest]
        else:
            check_length(sum(map(len, begun)), "line", input_split.paths[0])
    if last := b"".join(begun):
        yield last.removesuffix(b"\r")


class NumberedLines:
    """The lines of an input split that are not blank, numbered from 1; `count` is the number of lines read so
    far.
    """

    def __init__(self, input_split: InputSplit) -> None:
        self.count = 0
        self._input_split = input_split

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        found = read(self._input_split)
        begun = list(itertools.islice(found, 2))
        if not self._input_split.start and len(begun) == 1 and _CARRIAGE_RETURN in begun[0]:
            raise _of_old_line_ends(self._input_split.paths[0], begun[0])
        for line in itertools.chain(begun, found):
            self.count += 1
            if line.strip():
                yield self.count, line


def _of_old_line_ends(path: str, line: bytes) -> InputError:
    return InputError(
        f"input {path}",
        received=f"{line.count(_CARRIAGE_RETURN) + 1:,} lines that end in a carriage return alone",
        expected="a newline after each line",
        action=f"Convert them first: tr '\\r' '\\n' < {shlex.quote(path)} > FILE",
    )


def blocks(input_split: InputSplit) -> Iterator[bytes]:
    """The bytes of an input split, decompressed, 1 MiB at a time; without the file's byte order mark."""
    [path] = input_split.paths
    with ByteStream(path, start=input_split.start, end=input_split.end) as stream:
        mark = codecs.BOM_UTF8 if not input_split.start else b""
        while block := stream.read(_READ_BYTES):
            yield block.removeprefix(mark)
            mark = b""


def check_length(size: int, unit: str, path: str) -> None:
    """Raises InputError if a row of `size` bytes, a line or another `unit`, is longer than a worker can
    take.
    """
    if size > _ROW_BYTES:
        raise InputError(
            f"input {path}",
            received=f"a {unit} of more than {_ROW_BYTES >> 20} MiB",
            expected="rows of text with a newline after each",
            action="Check the file's format (--format), and how it was written; for text, also --text_unit.",
        )


def _after_newline(stream: pa.NativeFile, offset: int) -> int:
    # Starts one byte earlier, because a line may begin at `offset`.
    stream.seek(offset - 1)
    at = offset - 1
    while block := stream.read(_READ_BYTES):
        newline = block.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += len(block)
    return at
