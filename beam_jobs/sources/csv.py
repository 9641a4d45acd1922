"""CSV and TSV files, with or without a header, plain or compressed (by file name extension)."""

import codecs
import collections
import contextlib
import csv
import dataclasses
import io
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv

from beam_jobs.sources import byte_streams, files, lines
from beam_jobs.sources.byte_streams import ByteStream
from beam_jobs.sources.columns import column_names
from beam_jobs.sources.source import Input, InputSplit, RawRows, Rejection, excerpt
from pipeline.base.errors import InputError
from pipeline.data.origins.files import ANY_LINE_END

# --- Starts of rows in a large file, also behind quoted newlines and stray quotes.


_BLOCK_BYTES = 8 << 20  # 8 MiB
_QUOTE, _LF, _CR = b'"\n\r'


class RowStarts:
    """Finds the first row that begins at or after an offset; offsets must ascend.

    Whether a newline ends a row depends on every quote before it, so the file is read once from its start, on
    the launcher, at the speed of counting bytes. Quotes are read as Arrow's CSV reader does: one opens a
    quoted part only where a cell begins; inside, two stand for one; after the closing one the cell goes on.
    """

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
    """Finds ends of lines, and those that end rows, in the blocks of a file one after the other."""

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


# --- The line on which each row begins, as an editor counts.


_CARRIAGE_RETURN = ord("\r")
_AT_ONCE = 1 << 20  # 1 MiB: what is computed of it stays in the processor's cache


class RowLines:
    """Takes the bytes of a file or of an input split of it as they are read, and gives the lines of its rows.

    Rows are numbered from 0 as Arrow's reader does, which skips blank lines. Arrow reads in a thread of its
    own, so one thread may add while another calls `of`.
    """

    def __init__(self, *, delimiter: str) -> None:
        self.count = 0  # lines that have ended
        self._ends = LineEnds(delimiter=delimiter)
        self._held = b""  # a \r that a \n may follow
        self._row_line = 1  # where the row that has not ended began
        self._row_bytes = 0  # of it, so far
        self._lock = threading.Lock()
        self._known: list[np.ndarray] = []  # lines of rows, from row `_first` on
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

    def forget(self, row: int) -> None:
        """Forgets the rows before this one."""
        with self._lock:
            known = np.concatenate([np.zeros(0, np.int64), *self._known])
            self._known[:] = [known[max(0, row - self._first) :]]
            self._first = max(row, self._first)

    def _scan(self, part: bytes) -> None:
        lines, ends = self._ends.scan(part)
        # Each row begins where the one before ends; the first one began earlier.
        begins = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        sizes = ends - begins
        if len(ends):
            sizes[0] += self._row_bytes
        ended = np.searchsorted(lines, ends) if len(lines) > len(ends) else np.arange(len(ends))
        at = self.count + ended + 2  # the line behind each end of a row
        found = np.concatenate([[self._row_line], at[:-1]]) if len(ends) else at
        if len(ends):
            self._row_line, self._row_bytes = int(at[-1]), len(part) - int(ends[-1]) - 1
        else:
            self._row_bytes += len(part)
        self.count += len(lines)
        blank = sizes == 0
        alone = np.flatnonzero((sizes == 1) & (ends > begins))  # perhaps the first byte of a long end
        if len(alone):
            blank[alone] = np.frombuffer(part, np.uint8)[begins[alone]] == _CARRIAGE_RETURN
        self._keep(found[~blank])

    def _end(self) -> None:
        if held := self._held:
            self._held = b""
            self._scan(held)
        if self._row_bytes:
            self._keep(np.array([self._row_line]))
            self._row_bytes = 0

    def _keep(self, lines: np.ndarray) -> None:
        with self._lock:
            self._known.append(lines)


# --- The bytes of one input split, for Arrow's reader.


class NotUtf8Error(ValueError):
    """The input split is not UTF-8."""


class CsvStream:
    """A file for Arrow, as UTF-8 without the byte order mark. Raises NotUtf8Error, unless `any_bytes` may be.

    Arrow gives a row with the wrong number of cells as text only. So a file that is not UTF-8 is read as
    Latin-1, in which every byte is a character, and `bytes_of_latin_1` gives the bytes back.
    """

    def __init__(
        self,
        input_split: InputSplit,
        *,
        any_bytes: bool,
        encoding: str = byte_streams.UTF_8,
        lines: RowLines | None = None,
    ) -> None:
        """Opens the input split; what is read is added to `lines`."""
        [path] = input_split.paths
        self.closed = self._has_ended = False
        self._stream: ByteStream | byte_streams.Utf8Stream = ByteStream(
            path, start=input_split.start, end=input_split.end
        )
        if encoding != byte_streams.UTF_8:
            self._stream = byte_streams.Utf8Stream(self._stream, encoding)
        self._is_first = input_split.start == 0
        self._lines = lines
        self._decoder = None if any_bytes else codecs.getincrementaldecoder("utf-8")()

    def read(self, size: int) -> bytes:
        if self._has_ended:
            return b""
        block = self._stream.read(size)
        self._check(block)
        if self._is_first:
            self._is_first = False
            # A mark may be alone in its block; an empty block would say that the file ends.
            block = block.removeprefix(codecs.BOM_UTF8) or self._stream.read(size)
        if self._lines:
            self._lines.add(block)
        return block

    def end(self) -> None:
        """Ends the stream here: nothing more is read."""
        self._has_ended = True

    def close(self) -> None:
        self.closed = True
        self._stream.close()

    def _check(self, block: bytes) -> None:
        if self._decoder is None or (block.isascii() and not self._decoder.getstate()[0]):
            return
        try:
            self._decoder.decode(block, final=not block)
        except UnicodeDecodeError:
            raise NotUtf8Error from None


def bytes_of_latin_1(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Cells [rows] of a file that was read as Latin-1 → their bytes, binary [rows]."""
    columns = [
        pa.array([cell.decode().encode("latin-1") for cell in column.to_pylist()], pa.binary())
        for column in batch.columns
    ]
    return pa.record_batch(columns, names=batch.schema.names)


_START_BYTES, _MOST_STARTS = 1 << 20, 16  # a first row is looked for in 16 MiB
# All cells as they stand. The lists, which Arrow copies for every column, took 9 KB of memory a column.
_BYTES = pa.csv.ConvertOptions(
    default_column_type=pa.binary(),
    strings_can_be_null=False,
    null_values=[],
    true_values=[],
    false_values=[],
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CsvFiles:
    """Delimited text. Blank lines are skipped, newlines inside quotes belong to the value.

    Large files are cut where rows begin, unless they are compressed. The number of a row is the line on which
    it begins, in its input split. Cells stay bytes: a row that is not UTF-8 is one rejected row, and the rest
    of the file is read.
    """

    column_names: tuple[str, ...] = ()  # where no row names the columns
    delimiter: str = ","
    encoding: str = byte_streams.UTF_8
    header: Literal["yes", "no"] = "yes"  # whether the first row names the columns, if nothing else does
    block_bytes: int = 8 << 20  # 8 MiB a batch
    split_bytes: int = files.SPLIT_BYTES

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        return [part for input_split in files.one_split_a_file(inputs) for part in self._parts(input_split)]

    def _parts(self, input_split: InputSplit) -> list[InputSplit]:
        # In UTF-16 and the like, a byte of a newline may be a part of another character.
        if not byte_streams.keeps_ascii_bytes(self.encoding):
            return [input_split]
        input_split = dataclasses.replace(input_split, line_ends=ANY_LINE_END)
        return lines.cut_at(input_split, self.split_bytes, RowStarts(delimiter=self.delimiter))

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        given = 0
        try:
            for raw in self._read(input_split, any_bytes=False):
                yield raw
                given += raw.columns.num_rows
        except NotUtf8Error:
            # Again from the start, without the rows that were given already.
            for raw in self._read(input_split, any_bytes=True):
                yield raw.without_first(given)
                given = max(0, given - raw.columns.num_rows)

    def _read(self, input_split: InputSplit, *, any_bytes: bool) -> Iterator[RawRows]:
        [path] = input_split.paths
        names = self.column_names or self._names(input_split)
        has_header = not self.column_names and self.header == "yes" and not input_split.start
        lines = RowLines(delimiter=self.delimiter)
        wrong = _WrongRows(
            source=input_split.name,
            header_rows=int(has_header),
            encoding="latin-1" if any_bytes else "utf-8",
            lines=lines,
        )
        good_before = 0
        for batch in self._batches(input_split, () if has_header else names, wrong):
            numbers = wrong.number(good_before + np.arange(batch.num_rows))
            good_before += batch.num_rows
            cells = bytes_of_latin_1(batch) if any_bytes else batch
            yield RawRows(
                columns=cells.rename_columns(list(names)),
                sources=wrong.source,
                numbers=numbers,
                undecoded=True,
                directory=files.directory_of(path),
            )
        yield RawRows(
            columns=pa.record_batch([pa.array([], pa.binary())] * len(names), names=list(names)),
            sources=wrong.source,
            rejected=tuple(wrong.rejected),
            lines=lines.count,
        )

    def _batches(
        self, input_split: InputSplit, names: Sequence[str], wrong: "_WrongRows"
    ) -> Iterator[pa.RecordBatch]:
        stream = CsvStream(
            input_split, any_bytes=wrong.encoding != "utf-8", encoding=self.encoding, lines=wrong.lines
        )
        try:
            reader = pa.csv.open_csv(
                pa.PythonFile(stream, mode="r"),
                # Threads would lose the row numbers.
                read_options=pa.csv.ReadOptions(
                    column_names=names or None,
                    block_size=self.block_bytes,
                    use_threads=False,
                    encoding=wrong.encoding,
                ),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=wrong
                ),
                convert_options=_BYTES,
            )
            try:
                yield from reader
            finally:
                _stop(reader, stream)
        except pa.ArrowInvalid as error:
            if input_split.start and "Empty CSV" in str(error):
                return  # blank lines only
            too_long = (
                f"a row of more than {self.block_bytes >> 20} MiB" if "straddling" in str(error) else ""
            )
            parse_error = f"something that does not parse as CSV ({' '.join(str(error).split())})"
            raise InputError(
                f"input {input_split.paths[0]}",
                received=too_long if "straddling" in str(error) else parse_error,
                expected=f"rows separated by newlines, cells by {self.delimiter!r}, quotes that are closed",
                action="Correct the file, or give the right --delimiter or --encoding.",
            ) from None

    def _names(self, input_split: InputSplit) -> tuple[str, ...]:
        """Returns the names in the first row of the file, or numbered ones for its cells."""
        [path] = input_split.paths
        start = CsvStream(
            dataclasses.replace(input_split, start=0, end=None), any_bytes=True, encoding=self.encoding
        )
        text = _first_line(start).decode("utf-8", "backslashreplace")
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter)
        try:
            first = [name.strip() for name in next((row for row in rows if row), [])]
        except csv.Error as error:
            raise InputError(
                f"input {path}, first row",
                received=f"cells that are too long ({error})",
                expected=f"names of columns with {self.delimiter!r} between them, quotes that are closed",
                action="Correct the file, or give the right --delimiter.",
            ) from None
        if self.header == "yes":
            return column_names(first, path)
        return tuple(f"column_{number}" for number in range(1, len(first) + 1))


def _stop(reader: pa.csv.CSVStreamingReader, stream: CsvStream) -> None:
    """Ends the thread in which Arrow reads ahead; Python would crash if it exited meanwhile."""
    stream.end()
    with contextlib.suppress(pa.ArrowInvalid):  # a row that is cut off here
        collections.deque(reader, maxlen=0)


def _first_line(stream: CsvStream) -> bytes:
    """The start of a file: its first row, and more."""
    blocks = []
    while (block := stream.read(_START_BYTES)) and len(blocks) < _MOST_STARTS:
        blocks.append(block)
        if len(block.lstrip().splitlines()) > 1:
            break
    stream.close()
    return b"".join(blocks)


class _WrongRows:
    """Collects rows with the wrong number of cells, and gives the lines of the other rows."""

    def __init__(self, *, source: str, header_rows: int, encoding: str, lines: RowLines) -> None:
        self.source = source
        self.encoding = encoding
        self.lines = lines
        self.rejected: list[Rejection] = []
        self._header_rows = header_rows
        self._wrong: list[int] = []  # of all rows, from 0

    def __call__(self, row: pa.csv.InvalidRow) -> str:
        reason = f"{row.actual_columns} cells in place of {row.expected_columns}"
        self._wrong.append(row.number - 1)
        [line] = self.lines.of(np.array([row.number - 1])).tolist()
        raw = excerpt(row.text.encode(self.encoding))
        self.rejected.append(Rejection(source=self.source, row=line, reason=reason, raw=raw))
        return "skip"

    def number(self, good: np.ndarray) -> np.ndarray:
        """Returns the lines of right rows, which `good` numbers from 0, ascending; both int64 [rows]."""
        wrong = np.array(self._wrong, np.int64)
        good_before_wrong = wrong - self._header_rows - np.arange(len(wrong))
        rows = good + self._header_rows + np.searchsorted(good_before_wrong, good, side="right")
        lines = self.lines.of(rows)
        self.lines.forget(int(rows[-1]) + 1 if len(rows) else 0)
        return lines
