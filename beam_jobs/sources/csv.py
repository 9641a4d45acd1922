"""CSV and TSV files, with or without a header, plain or compressed (by file name extension)."""

import collections
import contextlib
import csv
import dataclasses
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv

from beam_jobs.sources.bytes import encodings, lines
from beam_jobs.sources.bytes.csv_stream import CsvStream, NotUtf8Error, bytes_of_latin_1
from beam_jobs.sources.bytes.row_lines import RowLines
from beam_jobs.sources.bytes.row_starts import RowStarts
from beam_jobs.sources.header import column_names
from beam_jobs.sources.pieces import files
from beam_jobs.sources.pieces.rejections import Rejection, shown
from beam_jobs.sources.pieces.source import Input, Piece, RawRows
from pipeline.data.dataset.origins.files import ANY_LINE_END
from pipeline.data.errors import InputError

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
    it begins, in its piece. Cells stay bytes: a row that is not UTF-8 is one rejected row, and
    the rest of the file is read.
    """

    column_names: tuple[str, ...] = ()  # where no row names the columns
    delimiter: str = ","
    encoding: str = encodings.UTF_8
    header: Literal["yes", "no"] = "yes"  # whether the first row names the columns, if nothing else does
    block_bytes: int = 8 << 20  # 8 MiB a batch
    piece_bytes: int = files.PIECE_BYTES

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        return [part for piece in files.one_piece_a_file(inputs) for part in self._parts(piece)]

    def _parts(self, piece: Piece) -> list[Piece]:
        # In UTF-16 and the like, a byte of a newline may be a part of another character.
        if not encodings.keeps_ascii_bytes(self.encoding):
            return [piece]
        piece = dataclasses.replace(piece, line_ends=ANY_LINE_END)
        return lines.cut_at(piece, self.piece_bytes, RowStarts(delimiter=self.delimiter))

    def read(self, piece: Piece) -> Iterator[RawRows]:
        given = 0
        try:
            for raw in self._read(piece, any_bytes=False):
                yield raw
                given += raw.columns.num_rows
        except NotUtf8Error:
            # Again from the start, without the rows that were given already.
            for raw in self._read(piece, any_bytes=True):
                yield raw.without_first(given)
                given = max(0, given - raw.columns.num_rows)

    def _read(self, piece: Piece, *, any_bytes: bool) -> Iterator[RawRows]:
        [path] = piece.paths
        names = self.column_names or self._names(piece)
        has_header = not self.column_names and self.header == "yes" and not piece.start
        lines = RowLines(delimiter=self.delimiter)
        wrong = _WrongRows(
            source=piece.name, header_rows=int(has_header), encoding=_encoding(any_bytes), lines=lines
        )
        good_before = 0
        for batch in self._batches(piece, () if has_header else names, wrong):
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
            columns=_no_rows(names),
            sources=wrong.source,
            rejected=tuple(wrong.rejected),
            lines=lines.count,
        )

    def _batches(self, piece: Piece, names: Sequence[str], wrong: "_WrongRows") -> Iterator[pa.RecordBatch]:
        stream = CsvStream(
            piece, any_bytes=wrong.encoding != "utf-8", encoding=self.encoding, lines=wrong.lines
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
            if piece.start and "Empty CSV" in str(error):
                return  # blank lines only
            too_long = (
                f"a row of more than {self.block_bytes >> 20} MiB" if "straddling" in str(error) else ""
            )
            parse_error = f"something that does not parse as CSV ({' '.join(str(error).split())})"
            raise InputError(
                f"input {piece.paths[0]}",
                received=too_long if "straddling" in str(error) else parse_error,
                expected=f"rows separated by newlines, cells by {self.delimiter!r}, quotes that are closed",
                action="Correct the file, or give the right --delimiter or --encoding.",
            ) from None

    def _names(self, piece: Piece) -> tuple[str, ...]:
        """What the first row of the file says, or how many cells it has."""
        [path] = piece.paths
        start = CsvStream(
            dataclasses.replace(piece, start=0, end=None), any_bytes=True, encoding=self.encoding
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
    """Ends the thread in which Arrow reads ahead: Python would crash if it ended in the midst of that."""
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
    """Collects rows with the wrong number of cells, and tells the lines of the other rows."""

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
        raw = shown(row.text.encode(self.encoding))
        self.rejected.append(Rejection(source=self.source, row=line, reason=reason, raw=raw))
        return "skip"

    def number(self, good: np.ndarray) -> np.ndarray:
        """Lines of the `good`-th rows that are not wrong (0-based), ascending; both int64 [rows]."""
        wrong = np.array(self._wrong, np.int64)
        good_before_wrong = wrong - self._header_rows - np.arange(len(wrong))
        rows = good + self._header_rows + np.searchsorted(good_before_wrong, good, side="right")
        lines = self.lines.of(rows)
        self.lines.forget(int(rows[-1]) + 1 if len(rows) else 0)
        return lines


def _encoding(any_bytes: bool) -> str:
    return "latin-1" if any_bytes else "utf-8"


def _no_rows(names: tuple[str, ...]) -> pa.RecordBatch:
    return pa.record_batch([pa.array([], pa.binary())] * len(names), names=list(names))
