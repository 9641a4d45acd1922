"""Where the rows of a large CSV file begin, also behind quoted newlines and stray quotes.

Whether a newline ends a row depends on every quote before it, so the file is read once from its start, on
the launcher, at the speed of counting bytes. Quotes are understood as Arrow's CSV reader does: one opens a
quoted part only where a cell begins; inside, two stand for one; after the closing one the cell goes on.
"""

import numpy as np
import pyarrow as pa

_BLOCK_BYTES = 8 << 20  # 8 MiB
_QUOTE, _LF, _CR = b'"\n\r'


class RowStarts:
    """Finds the first row that begins at or after an offset. Ask for offsets in ascending order."""

    def __init__(self, *, delimiter: str) -> None:
        self._ends = LineEnds(delimiter=delimiter)
        self._at = 0  # offset of the next block
        self._starts = np.zeros(0, np.int64)  # of rows, in the last block

    def __call__(self, stream: pa.NativeFile, offset: int) -> int:
        """The offset of that row; the size of the file if there is none."""
        while not len(found := self._starts[self._starts >= offset]):
            stream.seek(self._at)
            block = stream.read(_BLOCK_BYTES)
            if not block:
                return self._at
            # A block that ends between \r and \n cannot tell where the row after it begins.
            while block.endswith(b"\r") and (following := stream.read(1)):
                block += following
            self._starts = self._at + self._ends.scan(block)[1] + 1
            self._at += len(block)
        return int(found[0])


class LineEnds:
    """Where lines end, and which of them end rows, in the blocks of a file one after the other."""

    def __init__(self, *, delimiter: str) -> None:
        self._before_cell = np.zeros(256, bool)
        self._before_cell[[ord(delimiter), _LF, _CR]] = True
        self._last = _LF  # byte before the next block: a file begins as a cell does
        self._quoted = False  # whether the block begins within quotes
        self._closed = False  # whether the byte before it closed a quote

    def scan(self, block: bytes) -> tuple[np.ndarray, np.ndarray]:
        """Last bytes of the ends of lines, and of those that end a row: int64 [n], from the block's start.

        A block may not end between a carriage return and its line feed.
        """
        data = np.frombuffer(block, np.uint8)
        ends = lines = _line_ends(block, data)
        if b'"' in block:
            toggles = self._toggles(data)
            within = (np.searchsorted(toggles, ends) + self._quoted) % 2 == 1
            ends = ends[~within]
            self._quoted ^= len(toggles) % 2 == 1
            self._closed = bool(len(toggles)) and toggles[-1] == len(data) - 1 and not self._quoted
        else:
            ends = ends[:0] if self._quoted else ends
            self._closed = False
        self._last = block[-1]
        return lines, ends

    def _toggles(self, data: np.ndarray) -> np.ndarray:
        """The quotes that open or close a quoted part; those that do neither are left out."""
        quotes = np.flatnonzero(data == _QUOTE)
        before = np.append(np.uint8(self._last), data[:-1])[quotes]
        opens = self._before_cell[before]
        # Quotes alternate, if each that should open follows a delimiter or the quote that has just closed.
        opening = np.arange(len(quotes)) % 2 == self._quoted
        follows_close = before == _QUOTE
        follows_close[:1] &= quotes[:1] > 0 or self._closed
        if np.all(opens | follows_close | ~opening):
            return quotes
        return self._one_by_one(quotes, opens)

    def _one_by_one(self, quotes: np.ndarray, opens: np.ndarray) -> np.ndarray:
        quoted, closed_at = self._quoted, -1 if self._closed else -2
        toggles = []
        for quote, may_open in zip(quotes.tolist(), opens.tolist(), strict=True):
            if quoted:
                closed_at = quote
            elif not may_open and quote != closed_at + 1:
                continue
            quoted = not quoted
            toggles.append(quote)
        return np.array(toggles, np.int64)


def _line_ends(block: bytes, data: np.ndarray) -> np.ndarray:
    """Offsets of line feeds, and of carriage returns without one: int64 [n]. `data` is the block, uint8."""
    ends = np.flatnonzero(data == _LF)
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        at = np.flatnonzero(data == _CR)
        followed = np.append(data, 0)[at + 1] == _LF
        ends = np.union1d(ends, at[~followed])
    return ends
