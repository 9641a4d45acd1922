"""CSV and TSV files, with or without a header, plain or compressed (by file name extension)."""

import codecs
import collections
import contextlib
import csv
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from beam_jobs.sources import byte_streams, files, lines
from beam_jobs.sources.byte_streams import ByteStream
from beam_jobs.sources.columns import column_names
from beam_jobs.sources.csv_rows import NONE, Dialect, OddRow, RowLines, RowStarts
from beam_jobs.sources.dialect import check_first_rows
from beam_jobs.sources.source import Input, InputSplit, RawRows, Rejection, excerpt
from pipeline.base.errors import InputError
from pipeline.data.origins.files import ends_of_rows

# --- The bytes of one input split, for Arrow's reader.


class NotUtf8Error(ValueError):
    """The input split is not UTF-8."""


class CsvStream:
    """A file for Arrow, as UTF-8 without the byte order mark. Raises NotUtf8Error, unless `any_bytes` are
    allowed.

    Arrow gives a row with the wrong number of cells as text only. So a file that is not UTF-8 is read as
    Latin-1, in which every byte is a character, and `bytes_of_latin_1` gives the bytes back.
    """

    def __init__(
        self,
        input_split: InputSplit,
        *,
        any_bytes: bool,
        encoding: str = byte_streams.UTF_8,
        dialect: Dialect | None = None,
        lines: RowLines | None = None,
    ) -> None:
        """Opens the input split. Adds the lines that are read to `lines`. Without a `dialect`, escapes
        stay.
        """
        [path] = input_split.paths
        self.closed = self._has_ended = False
        self._stream: ByteStream | byte_streams.Utf8Stream = ByteStream(
            path, start=input_split.start, end=input_split.end
        )
        if encoding != byte_streams.UTF_8:
            self._stream = byte_streams.Utf8Stream(self._stream, encoding)
        self._is_first = input_split.start == 0
        self._escapes = dialect and _escapes(dialect)
        self._escape = dialect.escape_bytes if dialect else b""
        self._lines = lines
        self._decoder = None if any_bytes else codecs.getincrementaldecoder("utf-8")()

    def read(self, size: int) -> bytes:
        if self._has_ended:
            return b""
        block = self._read(size)
        return self._with_all_escapes(block) if self._escapes else block

    def _read(self, size: int) -> bytes:
        block = self._stream.read(size)
        self._check(block)
        if self._is_first:
            self._is_first = False
            # A block that holds only the mark would become empty, which means the end of the file: so read
            # on.
            block = block.removeprefix(codecs.BOM_UTF8) or self._stream.read(size)
        if self._lines:
            self._lines.add(block)
        return block

    def _with_all_escapes(self, block: bytes) -> bytes:
        """Doubles escapes before other characters: they are text, and Arrow would leave them out."""
        while block.endswith(self._escape) and (following := self._read(1)):
            block += following
        return self._escapes.sub(lambda found: found[1] or 2 * found[0], block)

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


def _escapes(dialect: Dialect) -> re.Pattern[bytes] | None:
    """A pattern of escapes; its group matches an escape together with a character that needs one."""
    if dialect.escape == NONE:
        return None
    escape = re.escape(dialect.escape_bytes)
    special = re.escape(dialect.escape_bytes + dialect.quote_bytes + dialect.delimiter.encode())
    return re.compile(b"(%b[%b\\r\\n])|%b" % (escape, special, escape))


def bytes_of_latin_1(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Cells [rows] of a file that was read as Latin-1 → their bytes, binary [rows]."""
    columns = [
        pa.array([cell.decode().encode("latin-1") for cell in column.to_pylist()], pa.binary())
        for column in batch.columns
    ]
    return pa.record_batch(columns, names=batch.schema.names)


_START_BYTES, _MOST_STARTS = 1 << 20, 16  # the first row is looked for in 16 MiB
# All cells as they stand. Arrow copies these lists for every column, which took 9 KB of memory a column.
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

    column_names: tuple[str, ...] = ()  # given where no row names the columns
    delimiter: str = ","
    quote: str = '"'  # stands around cells; NONE: a quote is text
    escape: str = NONE  # stands before a quote, a delimiter or a line end that is text
    encoding: str = byte_streams.UTF_8
    header: Literal["yes", "no"] = "yes"  # whether the first row names the columns, if nothing else does
    block_bytes: int = 8 << 20  # 8 MiB a batch
    split_bytes: int = files.SPLIT_BYTES

    @property
    def dialect(self) -> Dialect:
        """Raises InputError where two of its characters are equal."""
        return Dialect(delimiter=self.delimiter, quote=self.quote, escape=self.escape)

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        return [part for input_split in files.one_split_a_file(inputs) for part in self._parts(input_split)]

    def _parts(self, input_split: InputSplit) -> list[InputSplit]:
        # In UTF-16 and the like, a byte of a newline may be a part of another character.
        if not byte_streams.keeps_ascii_bytes(self.encoding):
            return [input_split]
        line_ends = ends_of_rows(quote=self.quote, escape=self.escape)
        input_split = dataclasses.replace(input_split, line_ends=line_ends)
        return lines.cut_at(input_split, self.split_bytes, RowStarts(self.dialect))

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        given = 0
        try:
            for raw in self._read(input_split, any_bytes=False):
                yield raw
                given += raw.columns.num_rows
        except NotUtf8Error:
            # Reads again from the start, and skips the rows that were given already.
            for raw in self._read(input_split, any_bytes=True):
                yield raw.without_first(given)
                given = max(0, given - raw.columns.num_rows)

    def _read(self, input_split: InputSplit, *, any_bytes: bool) -> Iterator[RawRows]:
        [path] = input_split.paths
        names = self.column_names or self._names(input_split)
        has_header = not self.column_names and self.header == "yes" and not input_split.start
        lines = RowLines(self.dialect, cells=len(names))
        marked = _MarkedRows(
            source=input_split.name,
            header_rows=int(has_header),
            encoding="latin-1" if any_bytes else "utf-8",
            lines=lines,
        )
        good_before = 0
        for batch in self._batches(input_split, () if has_header else names, marked):
            rows = marked.take(good_before + np.arange(batch.num_rows))
            good_before += batch.num_rows
            if not rows.are_right.all():
                batch = batch.filter(pa.array(rows.are_right))
            cells = bytes_of_latin_1(batch) if any_bytes else batch
            yield RawRows(
                columns=cells.rename_columns(list(names)),
                sources=marked.source,
                numbers=rows.lines[rows.are_right],
                spans=rows.spans,
                doubtful=rows.doubtful,
                undecoded=True,
                directory=files.directory_of(path),
            )
        yield RawRows(
            columns=pa.record_batch([pa.array([], pa.binary())] * len(names), names=list(names)),
            sources=marked.source,
            rejected=tuple(marked.rejected),
            lines=lines.count,
        )

    def _batches(
        self, input_split: InputSplit, names: Sequence[str], marked: "_MarkedRows"
    ) -> Iterator[pa.RecordBatch]:
        stream = CsvStream(
            input_split,
            any_bytes=marked.encoding != "utf-8",
            encoding=self.encoding,
            dialect=self.dialect,
            lines=marked.lines,
        )
        try:
            reader = pa.csv.open_csv(
                pa.PythonFile(stream, mode="r"),
                # Threads would lose the row numbers.
                read_options=pa.csv.ReadOptions(
                    column_names=names or None,
                    block_size=self.block_bytes,
                    use_threads=False,
                    encoding=marked.encoding,
                ),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char=False if self.quote == NONE else self.quote,
                    escape_char=False if self.escape == NONE else self.escape,
                    newlines_in_values=True,
                    invalid_row_handler=marked,
                ),
                convert_options=_BYTES,
            )
            try:
                yield from reader
            finally:
                _stop(reader, stream)
        except pa.ArrowInvalid as error:
            if input_split.start and "Empty CSV" in str(error):
                return  # the file has only blank lines
            place = f" from line {marked.lines.row_line:,} on" if not input_split.start else ""
            too_long = f"a row of more than {self.block_bytes >> 20} MiB{place}"
            parse_error = f"something that does not parse as CSV ({' '.join(str(error).split())})"
            raise InputError(
                f"input {input_split.paths[0]}",
                received=too_long if "straddling" in str(error) else parse_error,
                expected=f"rows separated by newlines, cells by {self.delimiter!r}, quotes that are closed",
                action="Correct the file, or give the right --delimiter, --quote or --encoding.",
            ) from None

    def _names(self, input_split: InputSplit) -> tuple[str, ...]:
        """Returns the names in the first row of the file, or numbered ones for its cells."""
        [path] = input_split.paths
        start = CsvStream(
            dataclasses.replace(input_split, start=0, end=None), any_bytes=True, encoding=self.encoding
        )
        text = _first_line(start).decode("utf-8", "backslashreplace")
        rows = self.dialect.read(text)
        try:
            first = [name.strip() for name in next((row for row in rows if row), [])]
        except csv.Error as error:
            raise InputError(
                f"input {path}, first row",
                received=f"cells that are too long ({error})",
                expected=f"names of columns with {self.delimiter!r} between them, quotes that are closed",
                action="Correct the file, or give the right --delimiter.",
            ) from None
        has_header = self.header == "yes"
        check_first_rows(text, self.dialect, path=path, encoding=self.encoding, has_header=has_header)
        if not has_header:
            return tuple(f"column_{number}" for number in range(1, len(first) + 1))
        return column_names(first, path)


def _stop(reader: pa.csv.CSVStreamingReader, stream: CsvStream) -> None:
    """Ends the thread in which Arrow reads ahead; Python would crash if it exited meanwhile."""
    stream.end()
    with contextlib.suppress(pa.ArrowInvalid):  # a row that is cut off here raises it
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


class _Taken(NamedTuple):
    """What is known of a batch's rows beside their cells."""

    lines: np.ndarray  # int64 [rows]
    are_right: np.ndarray  # bool [rows]; the others are rejected
    spans: Mapping[int, int]  # number of lines by first line, for rows of several lines
    doubtful: tuple[Rejection, ...]


class _MarkedRows:
    """Collects rows that cannot be read, and gives what is known of the others."""

    def __init__(self, *, source: str, header_rows: int, encoding: str, lines: RowLines) -> None:
        self.source = source
        self.encoding = encoding
        self.lines = lines
        self.rejected: list[Rejection] = []
        self._header_rows = header_rows
        self._wrong: list[int] = []  # numbers of all wrong rows, counted from 0

    def __call__(self, row: pa.csv.InvalidRow) -> str:
        """Rejects a row with the wrong number of cells; Arrow calls it."""
        number = row.number - 1
        self._wrong.append(number)
        odd = self.lines.odd().get(number)
        if odd and odd.flaw:
            self.rejected.append(self._rejection(odd, odd.flaw))
            return "skip"
        reason = f"{row.actual_columns} cells in place of {row.expected_columns}"
        [line] = self.lines.of(np.array([number])).tolist()
        text = row.text.encode(self.encoding)
        found = OddRow(line=line, lines=odd.lines if odd else 1, text=text)
        self.rejected.append(self._rejection(found, reason))
        return "skip"

    def take(self, good: np.ndarray) -> _Taken:
        """Takes the rows with the right number of cells, numbered from 0 by `good`, ascending: int64
        [rows].
        """
        wrong = np.array(self._wrong, np.int64)
        good_before_wrong = wrong - self._header_rows - np.arange(len(wrong))
        rows = good + self._header_rows + np.searchsorted(good_before_wrong, good, side="right")
        lines = self.lines.of(rows)
        are_right, spans, doubtful = np.ones(len(rows), bool), {}, []
        odd = self.lines.odd()
        numbers = np.fromiter(odd, np.int64, len(odd))
        at_right = np.searchsorted(rows, numbers)
        # The other rows are in another batch, or have the wrong number of cells.
        are_here = np.append(rows, -1)[at_right] == numbers
        for number, at in zip(numbers[are_here].tolist(), at_right[are_here].tolist(), strict=True):
            row = odd[number]
            are_right[at] = not row.flaw
            if row.flaw:
                self.rejected.append(self._rejection(row, row.flaw))
            elif row.lines > 1:
                spans[row.line] = row.lines
            if row.doubt:
                doubtful.append(dataclasses.replace(self._rejection(row, row.doubt), is_kept=True))
        self.lines.forget(int(rows[-1]) + 1 if len(rows) else 0)
        return _Taken(lines, are_right, spans, tuple(doubtful))

    def _rejection(self, row: OddRow, reason: str) -> Rejection:
        return Rejection(
            source=self.source, row=row.line, reason=reason, raw=excerpt(row.text), lines=row.lines
        )
