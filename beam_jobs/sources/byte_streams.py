"""The bytes of a file of text, or of a range of it, decompressed; errors name the file."""

import codecs
import collections
import dataclasses
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Self, TypeVar

import pyarrow as pa

from beam_jobs.sources import files
from beam_jobs.sources.source import InputSplit, Rejected, Rejection
from pipeline.base.errors import InputError

# Suffixes by the first bytes of a file.
_COMPRESSED = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst"}
_OTHERS = {  # other first bytes: what the file is, and what to do
    b"PK\x03\x04": ("a ZIP archive or a spreadsheet", "Unpack it, or save the spreadsheet as CSV."),
    b"\xd0\xcf\x11\xe0": ("an Office file", "Save the spreadsheet as CSV."),
    b"\xfd7zXZ\x00": ("compressed bytes (xz)", "Unpack it with xz -d."),
    b"7z\xbc\xaf": ("a 7-Zip archive", "Unpack it."),
    b"PAR1": ("a Parquet file", "Give --format=parquet."),
    b"Obj\x01": ("an Avro file", "Give --format=avro."),
    b"SQLite format 3\x00": ("an SQLite database", "Export the table as CSV."),
    b"version https://git-lfs": ("a pointer of Git LFS in place of the file", "Get it with git lfs pull."),
    b"%PDF-": ("a PDF", "Give the table in a file of its own, such as CSV."),
}


class ByteStream:
    """A file, decompressed if its name says so; or its stored bytes [start, end).

    Raises InputError where the file does not decompress, or is compressed and its name does not say so.
    """

    def __init__(self, path: str, *, start: int = 0, end: int | None = None) -> None:
        self._path = path
        self._left = None if end is None else end - start
        self._is_first = start == 0
        self._stream = files.open_stream(path) if end is None else files.open_seekable(path)
        if start:
            self._stream.seek(start)

    def read(self, size: int | None = None) -> bytes:
        if self._left is not None:
            size = self._left if size is None else min(size, self._left)
        try:
            block = self._stream.read(size)
        except OSError as error:
            received = f"bytes that do not read ({error})"
            raise self._error(received, "a whole file, compressed as its name says") from None
        if self._left is not None:
            self._left -= len(block)
        if self._is_first:
            self._is_first = False
            self._check_plain(block)
        return block

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, traceback: types.TracebackType | None
    ) -> None:
        self.close()

    def _check_plain(self, block: bytes) -> None:
        for start, ending in _COMPRESSED.items():
            if block.startswith(start):
                raise self._error("compressed bytes", f"text, or a name that ends in {ending}")
        if block[257:262] == b"ustar":
            raise self._error("a tar archive", "text", "Unpack it.")
        for start, (received, action) in _OTHERS.items():
            if block.startswith(start):
                raise self._error(received, "text", action)

    def _error(
        self,
        received: str,
        expected: str,
        action: str = "Copy the file again or correct its name, or leave it out.",
    ) -> InputError:
        return InputError(
            f"input {self._path}",
            received=received,
            expected=expected,
            action=action,
        )


# --- At which line of its file a row is, if its line in an input split is known.


def lines_before(input_splits: Sequence[InputSplit], lines: Mapping[str, int]) -> list[int]:
    """Counts the lines of its file that precede each input split; `lines` has their lines by name."""
    so_far = collections.Counter[str]()
    before = [0] * len(input_splits)
    for number in sorted(range(len(input_splits)), key=lambda number: input_splits[number].start):
        path = input_splits[number].paths[0]
        before[number] = so_far[path]
        so_far[path] += lines.get(input_splits[number].name, 0)
    return before


def lines_in_files(
    rejected: Rejected, input_splits: Sequence[InputSplit], lines: Mapping[str, int]
) -> Rejected:
    """Returns `rejected` with each row's file and its number there."""
    files_by_name = {
        input_split.name: (input_split.file_names[0], before)
        for input_split, before in zip(input_splits, lines_before(input_splits, lines), strict=True)
        if input_split.start
    }

    def in_files(rows: Iterable[Rejection]) -> tuple[Rejection, ...]:
        listed = []
        for row in rows:
            file, before = files_by_name.get(row.source, (row.source, 0))
            listed.append(dataclasses.replace(row, source=file, row=row.row and row.row + before))
        return tuple(sorted(listed, key=lambda row: row.order))

    return dataclasses.replace(
        rejected, listed=in_files(rejected.listed), doubtful=in_files(rejected.doubtful)
    )


# --- The encoding of a text file.


UTF_8 = "utf-8"
# A mark of UTF-32 begins with one of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF8: UTF_8,
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_OF_HOST_NAMES = ("idna", "punycode")
_NOT_UTF_8 = b"\xff"
_ZEROS = 0.25  # share of every second byte that is zero, from which text is UTF-16


def encoding_of(samples: Sequence[bytes]) -> str:
    """The encoding of a file from its start and, perhaps, other parts that begin and end with lines.

    Bytes that are not UTF-8 are Latin-1 (or cp1252, which has letters where Latin-1 has control characters).
    If most letters are UTF-8, the file is UTF-8, and some of its rows are damaged.
    """
    marked = utf_16_of(samples[0])
    if marked:
        return marked
    text = "".join(sample.decode(UTF_8, "surrogateescape") for sample in samples)
    foreign = {letter for letter in text if not letter.isascii()}
    wrong = {letter for letter in foreign if "\udc80" <= letter <= "\udcff"}
    proper = sum(map(text.count, foreign - wrong))
    if proper >= sum(map(text.count, wrong)):
        return UTF_8
    return "cp1252" if any(letter < "\udca0" for letter in wrong) else "latin-1"


def has_byte_order_mark(start: bytes) -> bool:
    """Returns whether a file with this start has a byte order mark, which says its encoding."""
    return start.startswith(tuple(_MARKS))


def tells_encoding(start: bytes) -> bool:
    """Returns whether a file with this start has a byte order mark, or letters of UTF-8."""
    if has_byte_order_mark(start):
        return True
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(start)
    except UnicodeDecodeError:
        return False
    return not start.isascii()


def utf_16_of(start: bytes) -> str | None:
    """Returns the encoding by a byte order mark, or by the zeros that UTF-16 has between letters."""
    for mark, name in _MARKS.items():
        if start.startswith(mark):
            return name
    pairs = max(1, len(start) // 2)
    high, low = start[1::2].count(0) / pairs, start[0::2].count(0) / pairs
    if max(high, low) < _ZEROS or min(high, low) > _ZEROS / 2:
        return None
    return "utf-16-le" if high > low else "utf-16-be"


def check_encoding(name: str) -> str:
    """Returns `name`, UTF-8 in one spelling; raises InputError unless it is an encoding of text."""
    try:
        known = codecs.lookup(name)
        if not known._is_text_encoding or known.name in _OF_HOST_NAMES:
            raise LookupError
        b"\xff\x80".decode(name, "replace")  # the codec "undefined" raises here
    except (LookupError, ValueError, TypeError):  # a name with NUL gives a ValueError
        raise InputError(
            "--encoding",
            received=name,
            expected="an encoding that Python knows, such as utf-8, utf-16, latin-1 or cp1252",
            action="Correct the name.",
        ) from None
    return UTF_8 if known.name in (UTF_8, "utf-8-sig") else name


def keeps_ascii_bytes(name: str) -> bool:
    """Returns whether delimiters, quotes and newlines are ASCII bytes that occur in no other character."""
    return name == UTF_8 or len(bytes(range(128, 256)).decode(name, "replace")) == 128 == len(
        bytes(range(128)).decode(name, "replace").encode("ascii", "ignore")
    )


class Utf8Stream:
    """The bytes of `stream` as UTF-8. What cannot be decoded becomes bytes that are not UTF-8."""

    def __init__(self, stream: ByteStream, encoding: str) -> None:
        self._stream = stream
        # Half of a surrogate pair, or a byte without a meaning, is left to the row that holds it.
        errors = "surrogatepass" if encoding.startswith("utf-") else "surrogateescape"
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        self._ready, self._has_ended = b"", False

    def read(self, size: int) -> bytes:
        while not self._ready and not self._has_ended:
            block = self._stream.read(size)
            self._has_ended = not block
            self._ready = self._decoded(block)
        given, self._ready = self._ready[:size], self._ready[size:]
        return given

    def _decoded(self, block: bytes) -> bytes:
        try:
            return self._decoder.decode(block, final=self._has_ended).encode(UTF_8, "surrogatepass")
        except UnicodeDecodeError:  # numbers that no character has, or a file that ends within a character
            self._decoder.reset()
            return _NOT_UTF_8

    def close(self) -> None:
        self._stream.close()


def decoded_parts(stream: pa.NativeFile, size: int, *, part_bytes: int, number: int) -> Iterator[bytes]:
    """Yields whole lines of about `part_bytes` at `number` places spread over a file of `size` bytes."""
    for place in range(1, number + 1):
        stream.seek(size * place // (number + 1))
        block = stream.read(part_bytes)
        yield block[block.find(b"\n") + 1 : block.rfind(b"\n") + 1]


# --- Batches that a worker can hold at once.


BATCH_BYTES = 32 << 20  # 32 MiB in the file; in memory a row takes several times as much

Row = TypeVar("Row")


def in_batches(
    rows: Iterable[Row],
    *,
    at_most: int | None = None,
    size: Callable[[Row], int],
    most_bytes: int | None = None,
) -> Iterator[list[Row]]:
    """Yields lists of `at_most` rows, or of fewer rows that together have about `most_bytes`.

    Args:
      size: gives the bytes of a row.
      most_bytes: by default 32 MiB.
    """
    most_bytes = most_bytes or BATCH_BYTES
    batch: list[Row] = []
    held = 0
    for row in rows:
        batch.append(row)
        held += size(row)
        if len(batch) == at_most or held >= most_bytes:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch
