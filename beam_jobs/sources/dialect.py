"""The dialect of a CSV file, found from its first rows: delimiter, encoding, a header or none."""

import contextlib
import csv
import io
import itertools
import re
from collections.abc import Callable, Container, Mapping, Sequence

from beam_jobs.sources import byte_streams, files
from beam_jobs.sources.byte_streams import ByteStream
from beam_jobs.sources.source import Input
from pipeline.base.cli.flags import separator

# In this order where several fit: commas are in numbers and in text.
_DELIMITERS = "\t;|,"
_START_BYTES = 1 << 20  # 1 MiB
_ROWS = 1000  # that are looked at
_FITTING = 0.9  # of the rows have as many cells as the first
_PARTS, _PART_BYTES = 16, 64 << 10  # 64 KiB
_NO_NUMBER = {"", "?", "-", "na", "n/a", "nan", "null", "none"}
_YEARS = range(1800, 2200)
_DATE = re.compile(r"\s*[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}(?![0-9.])")


def find(
    inputs: Sequence[Input], given: Mapping[str, object], *, guess: bool, remembered: Container[str] = ()
) -> dict[str, str]:
    """Values of --delimiter, --encoding and --header for the first file of `inputs` that are not `given`.

    Without `guess`, takes only what leaves no doubt, so neither Latin-1 nor the absence of a header. A byte
    order mark overrides an encoding that is `remembered`, not one that a flag gives.
    """
    if {"delimiter", "encoding", "header"} <= given.keys() and "encoding" not in remembered:
        return {}
    file = next((file for file in files.list_files(inputs[0]) if file.bytes), None)
    if file is None:
        return {}
    with ByteStream(file.path) as stream:
        start = stream.read(_START_BYTES)
    is_marked = "encoding" in remembered and byte_streams.has_byte_order_mark(start)
    known = given.get("encoding") if not is_marked else None
    encoding = str(known or _encoding(file, start, guess=guess))
    text = start.decode(encoding, "replace").removeprefix("\ufeff")
    if len(start) == _START_BYTES:
        text = text[: text.rfind("\n") + 1] or text
    said = given.get("delimiter")
    delimiter = separator(str(said)) if said else delimiter_of(text) or _by_name(file.path)
    sure = not guess or bool(given.get("column_names"))
    found = "yes" if sure or has_header(_rows(text, delimiter)) else "no"
    return {"delimiter": delimiter, "encoding": encoding, "header": str(given.get("header") or found)}


def delimiter_of(text: str) -> str | None:
    """The character that parts the rows of `text` into equal numbers of cells; None: one column."""
    found = {delimiter: [len(row) for row in _rows(text, delimiter)] for delimiter in _DELIMITERS}
    fitting = {
        delimiter: round(sizes.count(sizes[0]) / len(sizes), 1)
        for delimiter, sizes in found.items()
        if sizes and sizes[0] > 1
    }
    best = max(fitting, key=fitting.__getitem__, default=None)
    return best if best and (fitting[best] >= _FITTING or best == ",") else None


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Returns whether the first row names the columns, rather than being of the same kind as the others.

    It does not where it holds a date in a column of dates, or numbers in all columns of numbers or, in a
    table of text, where half of its cells come again in their columns.
    """
    first, body = rows[0] if rows else (), [row for row in rows[1:] if len(row) == len(rows[0])]
    if len(body) < 2:
        return True
    columns = list(zip(*body, strict=True))
    if any(_is_date(cell) and _mostly(_is_date, column) for cell, column in zip(first, columns, strict=True)):
        return False
    numeric = [cell for cell, column in zip(first, columns, strict=True) if _mostly(_is_number, column)]
    if numeric:
        named = [cell for cell in numeric if cell.strip().lower() not in _NO_NUMBER]
        return not named or not all(map(_is_number, named)) or _are_labels(named)
    repeated = [cell in column for cell, column in zip(first, columns, strict=True) if cell]
    return sum(repeated) * 2 < len(repeated) or not repeated


def format_dialect(values: Mapping[str, object]) -> str:
    """Formats in one line how the files are read, from the values of all flags."""
    delimiter = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "'|'"}
    by = delimiter.get(str(values["delimiter"]), repr(values["delimiter"]))
    names = "the first row names the columns"
    if values.get("column_names"):
        names = "the columns are named by --column_names"
    elif values["header"] == "no":
        names = "no header, so the columns are column_1, column_2, …"
    return (
        f"Read as CSV: cells between {by} (--delimiter), {values['encoding'].upper()} (--encoding), "
        f"{names} (--header)."
    )


def _encoding(file: files.InputFile, start: bytes, *, guess: bool) -> str:
    if not guess:
        return byte_streams.utf_16_of(start) or byte_streams.UTF_8
    lines = start if len(start) < _START_BYTES else start[: start.rfind(b"\n") + 1]
    samples = [lines]
    if len(start) == _START_BYTES and not files.is_compressed(file.path):
        with files.open_seekable(file.path) as stream:
            samples += byte_streams.decoded_parts(stream, file.bytes, part_bytes=_PART_BYTES, number=_PARTS)
    return byte_streams.encoding_of(samples)


def _by_name(path: str) -> str:
    return "\t" if ".tsv" in path.rpartition("/")[2] else ","


def _rows(text: str, delimiter: str) -> list[list[str]]:
    """The first rows that are not blank, as far as the csv module reads them."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    found: list[list[str]] = []
    with contextlib.suppress(csv.Error):  # a cell of more than 128 KiB
        found.extend(itertools.islice(filter(None, rows), _ROWS))
    return found


def _mostly(is_one: Callable[[str], bool], column: Sequence[str]) -> bool:
    present = [cell for cell in column if cell.strip().lower() not in _NO_NUMBER]
    return bool(present) and sum(map(is_one, present)) >= _FITTING * len(present)


def _is_date(cell: str) -> bool:
    return _DATE.match(cell) is not None


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _are_labels(numbers: Sequence[str]) -> bool:
    """Returns whether numbers name columns: several years, or 0, 1, 2, …"""
    if not all(number.strip().isdecimal() for number in numbers) or len(numbers) < 2:
        return False
    whole = list(map(int, numbers))
    years = all(number in _YEARS for number in whole) and len(set(whole)) == len(whole)
    return years or (len(whole) > 2 and whole == list(range(whole[0], whole[0] + len(whole))))
