"""Texts in runs of a few MiB: tokenising takes no more memory for a long text than for many short ones."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# A tokenizer takes up to 100 bytes for a token while it works. Texts up to here are tokenised as a whole.
PART_BYTES = 4 << 20  # 4 MiB


class Part(NamedTuple):
    """A text, or a part of a longer one; `is_last` says that the text ends with it."""

    text: str
    is_last: bool


def runs(texts: pa.StringArray, *, part_bytes: int) -> Iterator[list[Part]]:
    """The texts that have characters, in order, at most `part_bytes` at once.

    A longer text is cut before its last blank or line break within `part_bytes`, or between two characters.
    """
    lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths, dtype=np.int64)
    start, done = 0, 0
    while start < len(texts):
        stop = max(start + 1, int(np.searchsorted(ends, done + part_bytes, side="right")))
        if lengths[start] > part_bytes:
            yield from ([part] for part in _cut(memoryview(texts[start].as_buffer()), part_bytes))
        else:
            yield [Part(text, True) for text in texts[start:stop].to_pylist() if text]
        start, done = stop, int(ends[stop - 1])


def _cut(text: memoryview, part_bytes: int) -> Iterator[Part]:
    start = 0
    while len(text) - start > part_bytes:
        end = start + _cut_at(bytes(text[start : start + part_bytes + 1]))
        yield Part(str(text[start:end], "utf-8"), False)
        start = end
    yield Part(str(text[start:], "utf-8"), True)


def _cut_at(window: bytes) -> int:
    """Where to cut UTF-8 that goes on behind `window`: above 0, and below its length."""
    blank = max(window.rfind(b" "), window.rfind(b"\n"))
    if blank > 0:
        return blank  # many tokenizers join a blank to the word behind it
    end = len(window) - 1
    while window[end] & 0xC0 == 0x80:  # inside of a character
        end -= 1
    return end
