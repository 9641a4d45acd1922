"""Rows of delimited text: where each begins, on which line, and what is odd about its quotes."""

import csv
import dataclasses
import io
import re
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.sources.source import ESCAPED, EXCERPT_BYTES, SEVERAL_ROWS, TEXT_BEHIND, UNCLOSED
from pipeline.base.errors import InputError

NONE = "none"  # value for no quote, or no escape


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dialect:
    """The delimiter, the quote and the escape, which takes its meaning from the next character.

    An escape stands before a quote, a delimiter, a line end or itself; elsewhere it is text.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = NONE

    def __post_init__(self) -> None:
        said = [character for character in (self.delimiter, self.quote, self.escape) if character != NONE]
        if len(set(said)) < len(said):
            raise InputError(
                "--delimiter, --quote and --escape",
                received=", ".join(map(repr, said)),
                expected="characters that differ",
                action="Correct one of them; --quote=none and --escape=none are for files that have none.",
            )

    @property
    def own_quotes(self) -> dict[str, str]:
        """The flags of the quote and the escape that differ from the usual."""
        return {
            name: value
            for name, value, usual in (("quote", self.quote, '"'), ("escape", self.escape, NONE))
            if value != usual
        }

    @property
    def quote_bytes(self) -> bytes:
        """The quote; empty if there is none."""
        return b"" if self.quote == NONE else self.quote.encode()

    @property
    def escape_bytes(self) -> bytes:
        """The escape; empty if there is none."""
        return b"" if self.escape == NONE else self.escape.encode()

    def read(self, text: str) -> Iterator[list[str]]:
        """Yields the cells of each row as Python reads them; raises csv.Error for one that is too long."""
        has_quote = self.quote != NONE
        return csv.reader(
            io.StringIO(text, newline=""),
            delimiter=self.delimiter,
            quotechar=self.quote if has_quote else None,
            quoting=csv.QUOTE_MINIMAL if has_quote else csv.QUOTE_NONE,
            escapechar=None if self.escape == NONE else self.escape,
        )


# --- Starts of rows in a large file, also after quoted newlines and stray quotes.


_BLOCK_BYTES = 8 << 20  # 8 MiB
_LF, _CR = b"\n\r"


class RowStarts:
    """Finds the first row that begins at or after an offset; offsets must ascend.

    Whether a newline ends a row depends on every quote before it, so the file is read once from its start, on
    the launcher, at the speed of counting bytes. Quotes are read as Arrow's CSV reader does: one opens a
    quoted part only where a cell begins; inside it, two quotes stand for one; after the closing quote the
    cell goes on.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._ends = LineEnds(dialect)
        self._at = 0  # offset of the next block
        self._starts = np.zeros(0, np.int64)  # offsets of rows that begin in the last block

    def __call__(self, stream: pa.NativeFile, offset: int) -> int:
        """The offset of that row; the size of the file if there is none."""
        while not len(found := self._starts[self._starts >= offset]):
            stream.seek(self._at)
            block = stream.read(_BLOCK_BYTES)
            if not block:
                return self._at
            # After a block that ends between \r and \n, it would be unknown where the next row begins.
            while block.endswith(b"\r") and (following := stream.read(1)):
                block += following
            self._starts = self._at + self._ends.scan(block).rows + 1
            self._at += len(block)
        return int(found[0])


class Ends(NamedTuple):
    """Offsets in a block, int64 [n]: the last bytes of line ends, and closing quotes with text after them."""

    lines: np.ndarray
    rows: np.ndarray  # the line ends that end a row too
    closed_within: np.ndarray  # quotes that close a quoted part while the cell goes on


class LineEnds:
    """Finds ends of lines, and those that end rows, in the blocks of a file one after the other."""

    def __init__(self, dialect: Dialect) -> None:
        self._before_cell = np.zeros(256, bool)
        self._before_cell[[ord(dialect.delimiter), _LF, _CR]] = True
        self._quote, self._escape = dialect.quote_bytes, dialect.escape_bytes
        self._escaped = re.compile(re.escape(self._escape) + b".", re.DOTALL)
        self._blanks = b" \t".replace(dialect.delimiter.encode(), b"")
        self._last = _LF  # the byte before the next block; the start of a file counts as the start of a line
        self.is_quoted = False  # whether the block begins within quotes
        self._closed = False  # whether the byte before the block closed a quote
        self._behind = False  # whether only blanks are between the block and a closing quote before it
        self._is_escaped = False  # whether an escape is just before the block

    def scan(self, block: bytes) -> Ends:
        """Finds the ends in a block, which may not end between a carriage return and its line feed."""
        data = np.frombuffer(block, np.uint8)
        ends = lines = _line_ends(block, data)
        if self._escape and (self._is_escaped or self._escape in block):
            block = self._without_escaped(block)
            data = np.frombuffer(block, np.uint8)
            ends = _line_ends(block, data)
        within = ends[:0]
        if self._quote and (self._quote in block or self._closed or self._behind):
            toggles = self._toggles(data) if self._quote in block else ends[:0]
            within = self._closed_within(block, data, toggles)
            are_quoted = (np.searchsorted(toggles, ends) + self.is_quoted) % 2 == 1
            ends = ends[~are_quoted]
            self.is_quoted ^= len(toggles) % 2 == 1
            self._closed = bool(len(toggles)) and toggles[-1] == len(data) - 1 and not self.is_quoted
        elif self.is_quoted:
            ends = ends[:0]
        self._last = block[-1]
        return Ends(lines, ends, within)

    def _without_escaped(self, block: bytes) -> bytes:
        """Puts letters in place of escapes and the characters after them."""
        if self._is_escaped:
            block = b"x" + block[1:]
        block = self._escaped.sub(b"xx", block)
        self._is_escaped = block.endswith(self._escape)
        return block

    def _toggles(self, data: np.ndarray) -> np.ndarray:
        """The quotes that open or close a quoted part; those that do neither are left out."""
        quote = ord(self._quote)
        quotes = np.flatnonzero(data == quote)
        before = np.append(np.uint8(self._last), data[:-1])[quotes]
        opens = self._before_cell[before]
        # A quote may open where a cell begins, or right behind a closing quote. If all quotes that should
        # open stand there, quotes simply alternate: one opens, the next closes.
        opening = np.arange(len(quotes)) % 2 == self.is_quoted
        follows_close = before == quote
        follows_close[:1] &= quotes[:1] > 0 or self._closed
        if np.all(opens | follows_close | ~opening):
            return quotes
        return self._one_by_one(quotes, opens)

    def _one_by_one(self, quotes: np.ndarray, opens: np.ndarray) -> np.ndarray:
        quoted, closed_at = self.is_quoted, -1 if self._closed else -2
        toggles = []
        for quote, may_open in zip(quotes.tolist(), opens.tolist(), strict=True):
            if quoted:
                closed_at = quote
            elif not may_open and quote != closed_at + 1:
                continue
            quoted = not quoted
            toggles.append(quote)
        return np.array(toggles, np.int64)

    def _closed_within(self, block: bytes, data: np.ndarray, toggles: np.ndarray) -> np.ndarray:
        """The quotes among `toggles` after which the cell goes on, apart from blanks; 0: a quote before the
        block.
        """
        closing = toggles[int(not self.is_quoted) :: 2]
        following = np.append(data, np.uint8(_LF))[closing + 1]
        doubtful = closing[~self._before_cell[following] & (following != ord(self._quote))].tolist()
        if self._behind or (self._closed and not block.startswith(self._quote)):
            doubtful.insert(0, -1)
        rests = [block[at + 1 : at + 1 + _BLANKS].lstrip(self._blanks) for at in doubtful]
        last = int(closing[-1]) if len(closing) else -1 if self._behind or self._closed else len(block)
        tail = block[last + 1 : last + 1 + _BLANKS]
        self._behind = bool(tail) and last + 1 + len(tail) == len(block) and not tail.strip(self._blanks)
        return np.array(
            [
                max(at, 0)
                for at, rest in zip(doubtful, rests, strict=True)
                if rest and not self._before_cell[rest[0]]
            ],
            np.int64,
        )


_BLANKS = 64  # blanks after a closing quote, at most


def _line_ends(block: bytes, data: np.ndarray) -> np.ndarray:
    """Offsets of line feeds, and of carriage returns without one: int64 [n]. `data` is the block, uint8."""
    ends = np.flatnonzero(data == _LF)
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        at = np.flatnonzero(data == _CR)
        followed = np.append(data, 0)[at + 1] == _LF
        ends = np.union1d(ends, at[~followed])
    return ends


# --- The line on which each row begins, as an editor counts, and the rows that are odd.


_CARRIAGE_RETURN = ord("\r")
_AT_ONCE = 1 << 20  # 1 MiB: what is computed from it stays in the processor's cache


class OddRow(NamedTuple):
    """A row of several lines, or a `flawed` row, which may be read wrongly."""

    line: int  # the line on which it begins
    lines: int
    text: bytes  # the start of its text
    flaw: str = ""
    doubt: str = ""


class RowLines:
    """Takes the bytes of a file, or of a part of it, as they are read, and tells at which line each row is.

    Rows are numbered from 0 as Arrow's reader does, which skips blank lines. Arrow reads in a thread of its
    own, so one thread may add while another asks.
    """

    def __init__(self, dialect: Dialect, *, cells: int) -> None:
        """`cells` is the number of cells that each row should have."""
        self.count = 0  # lines that have ended
        self.row_line = 1  # the line on which the current row began
        self._ends = LineEnds(dialect)
        self._delimiter, self._quote, self._cells = dialect.delimiter.encode(), dialect.quote_bytes, cells
        self._held = b""  # a \r that may belong to a \n in the next block
        self._row = b""  # the bytes of the current row so far
        self._is_flawed = False
        self._rows = 0  # rows that have ended and are not blank
        self._lock = threading.Lock()
        self._known: list[np.ndarray] = []  # lines of rows, from row `_first` on
        self._odd: dict[int, OddRow] = {}  # by the number of the row, ascending
        self._first = 0

    def add(self, block: bytes) -> None:
        """Adds the next bytes; none at the end."""
        if not block:
            self._end()
        for start in range(0, len(block), _AT_ONCE):
            part = self._held + block[start : start + _AT_ONCE]
            self._held = part[-1:] if part.endswith(b"\r") else b""
            if part := part.removesuffix(self._held):
                self._scan(part)

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Returns int64 [n]: the lines of `rows`, int64 [n]; 0 for a row that was not found here."""
        with self._lock:
            known = np.concatenate([np.zeros(0, np.int64), *self._known])
            self._known[:] = [known]
            first = self._first
        place = rows - first
        is_known = (place >= 0) & (place < len(known))
        lines = np.zeros(len(rows), np.int64)
        lines[is_known] = known[place[is_known]]
        return lines

    def odd(self) -> Mapping[int, OddRow]:
        """Returns the odd rows that are known and not forgotten, by their numbers."""
        with self._lock:
            return dict(self._odd)

    def forget(self, row: int) -> None:
        """Forgets the rows before this one."""
        with self._lock:
            known = np.concatenate([np.zeros(0, np.int64), *self._known])
            self._known[:] = [known[max(0, row - self._first) :]]
            self._first = max(row, self._first)
            self._odd = {number: odd for number, odd in self._odd.items() if number >= row}

    def _scan(self, part: bytes) -> None:
        lines, ends, within = self._ends.scan(part)
        # Each row begins where the row before it ends; the first one began earlier.
        begins = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        sizes = ends - begins
        if len(ends):
            sizes[0] += len(self._row)
        ended = np.searchsorted(lines, ends) if len(lines) > len(ends) else np.arange(len(ends))
        at = self.count + ended + 2  # the line after each end of a row
        found = np.concatenate([[self.row_line], at[:-1]]) if len(ends) else at
        self.count += len(lines)
        blank = sizes == 0
        alone = np.flatnonzero((sizes == 1) & (ends > begins))  # may be the first byte of a long line end
        if len(alone):
            blank[alone] = np.frombuffer(part, np.uint8)[begins[alone]] == _CARRIAGE_RETURN
        odd = self._find_odd(part, ends, within, found, at - found, blank)
        if len(ends):
            self.row_line, self._row = int(at[-1]), part[int(ends[-1]) + 1 :]
        else:
            self._row += part
        self._keep(found[~blank], odd)

    def _find_odd(
        self,
        part: bytes,
        ends: np.ndarray,
        within: np.ndarray,
        found: np.ndarray,
        spans: np.ndarray,
        blank: np.ndarray,
    ) -> dict[int, OddRow]:
        are_flawed = np.zeros(len(ends) + 1, bool)  # the last entry is for the row that goes on
        are_flawed[np.searchsorted(ends, within)] = True
        are_flawed[0] |= self._is_flawed
        self._is_flawed = bool(are_flawed[-1])
        rows = np.flatnonzero((are_flawed[:-1] | (spans > 1)) & ~blank)
        if not len(rows):
            return {}
        numbers = self._rows + np.cumsum(~blank) - 1
        starts = np.where(rows > 0, ends[rows - 1] + 1, 0)
        known = (numbers[rows], starts, ends[rows], found[rows], spans[rows], are_flawed[rows])
        odd = {}
        for number, start, end, line, lines, is_flawed in zip(
            *(each.tolist() for each in known), strict=True
        ):
            text = part[start:end] if start else self._row + part[:end]
            odd[number] = self._odd_row(text, line=line, lines=lines, is_flawed=is_flawed)
        return odd

    def _odd_row(self, text: bytes, *, line: int, lines: int, is_flawed: bool) -> OddRow:
        text = text.rstrip(b"\r\n")
        flaw = (ESCAPED if b"\\" + self._quote in text else TEXT_BEHIND) if is_flawed else ""
        doubt = SEVERAL_ROWS if lines > 1 and not flaw and self._is_of_several(text) else ""
        return OddRow(line, lines, text[:EXCERPT_BYTES], flaw, doubt)

    def _is_of_several(self, text: bytes) -> bool:
        """Returns whether the lines of `text` look like rows: all lines if there are two columns, else all
        but the first and last.
        """
        if self._cells < 2 or text.count(self._delimiter) < 2 * (self._cells - 1):
            return False
        are_right = [
            line.count(self._delimiter) == self._cells - 1 for line in text.splitlines() if line.strip()
        ]
        return all(are_right if self._cells == 2 else are_right[1:-1]) and sum(are_right) > 1

    def _end(self) -> None:
        if held := self._held:
            self._held = b""
            self._scan(held)
        if not self._row:
            return
        text, line = self._row, self.row_line
        lines = self.count + 1 - line + (not text.endswith((b"\n", b"\r")))
        row = self._odd_row(text, line=line, lines=lines, is_flawed=self._is_flawed)
        if self._ends.is_quoted:
            row = row._replace(flaw=UNCLOSED, doubt="")
        self._keep(np.array([line]), {self._rows: row} if row.flaw or lines > 1 else {})
        self._row = b""

    def _keep(self, lines: np.ndarray, odd: Mapping[int, OddRow]) -> None:
        self._rows += len(lines)
        with self._lock:
            self._known.append(lines)
            self._odd |= odd
