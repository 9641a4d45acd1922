"""Rows of a file of lines, read again by the numbers of their lines. Standard library and numpy only."""

import bz2
import gzip
import pathlib
import re
from collections.abc import Collection, Iterator
from typing import IO

import numpy as np

from pipeline.data.dataset.origins.files import ANY_LINE_END, Entry

_MOST_READ = 256 << 20  # 256 MiB; a part of a file that is not compressed has 64 MiB
_MOST_OF_ROW = 16 << 10  # 16 KiB
_BLOCK = 1 << 20
_COMPRESSED = {".gz": gzip.open, ".bz2": bz2.open}
_UNREADABLE = (".zst",)  # not in the standard library
_LF = ord("\n")
# A cell in quotes, or the end of a row. A quote within a cell, as in `5" pipe`, begins nothing: what stands
# before it is no delimiter. Which character is one is not known here; a letter, a space or a bracket is none.
_QUOTED_OR_END = re.compile(
    rb"""(?:\A|(?<=\t)|(?<=[^\w\s"'()\[\]{}<>\x80-\xff]))"[^"]*(?:""[^"]*)*(?P<close>"?)|\n"""
)


def rows(path: pathlib.Path, part: Entry, lines: Collection[int], line_ends: str) -> dict[int, str]:
    """The rows that begin on `lines` of a part, counted from 1, without the end of the last line.

    A row of CSV may be of several lines. Of a row of more than 16 KiB that much is given. Rows are left out
    that are not found, and all where the file has another size than when it was converted.
    """
    try:
        if not path.is_file() or path.stat().st_size != part.file_bytes or path.suffix in _UNREADABLE:
            return {}
        with _COMPRESSED.get(path.suffix, open)(path, "rb") as file:
            file.seek(part.start)
            found = _starting_on(_blocks(file, line_ends), lines)
    except (OSError, EOFError, ValueError):  # unreadable; no longer compressed; a name with a 0 in it
        return {}
    return {line: _row(text, line_ends).decode("utf-8", "backslashreplace") for line, text in found.items()}


def _blocks(file: IO[bytes], line_ends: str) -> Iterator[bytes]:
    """What is left of the file, all lines of which end in \\n."""
    held = b""
    for _ in range(_MOST_READ // _BLOCK):
        block = file.read(_BLOCK)
        if line_ends == ANY_LINE_END:
            block, held = held + block, b""
            if block.endswith(b"\r") and len(block) > 1:  # perhaps a \n follows
                block, held = block[:-1], b"\r"
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not block:
            return
        yield block


def _starting_on(blocks: Iterator[bytes], lines: Collection[int]) -> dict[int, bytes]:
    """What the file has from each of `lines` on, as much as a row may have."""
    found: dict[int, bytearray] = {}
    waiting = sorted(lines)
    first = 1  # line that the block begins in, or with
    before = b"\n"  # the byte before the block
    for block in blocks:
        for text in found.values():
            if len(text) < _MOST_OF_ROW:
                text += block[: _MOST_OF_ROW - len(text)]
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _LF)
        if before == b"\n" and waiting and waiting[0] == first:
            found[waiting.pop(0)] = bytearray(block[:_MOST_OF_ROW])
        while waiting and waiting[0] - first - 1 < len(ends) and waiting[0] > first:
            start = int(ends[waiting[0] - first - 1]) + 1
            if start == len(block):  # the line begins with the next block
                break
            found[waiting.pop(0)] = bytearray(block[start : start + _MOST_OF_ROW])
        first += len(ends)
        before = block[-1:]
        if not waiting and all(len(text) >= _MOST_OF_ROW for text in found.values()):
            break
    return {line: bytes(text) for line, text in found.items()}


def _row(text: bytes, line_ends: str) -> bytes:
    """The row that `text` begins with: a cell of CSV that is in quotes may be of several lines."""
    for found in _QUOTED_OR_END.finditer(text) if line_ends == ANY_LINE_END else ():
        if found[0] == b"\n":
            return text[: found.start()]
        if not found["close"]:
            break  # the cell is longer than a row may be
    return text.partition(b"\n")[0].removesuffix(b"\r")
