"""The dialect of a CSV file, found from its first rows: delimiter, quotes, encoding, a header or none."""

import codecs
import contextlib
import csv
import dataclasses
import itertools
import json
import re
import shlex
from collections.abc import Callable, Collection, Container, Mapping, Sequence

from beam_jobs.sources import byte_streams, files
from beam_jobs.sources.byte_streams import ByteStream
from beam_jobs.sources.csv_rows import NONE, Dialect, RowLines
from beam_jobs.sources.source import Input
from pipeline.base.cli.flags import quoting, separator
from pipeline.base.errors import InputError

# Where several delimiters fit, the first of these is taken: commas also stand in numbers and in text.
_DELIMITERS = "\t;|,"
_NAMES_OF_DELIMITERS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "'|'"}
_START_BYTES = 1 << 20  # 1 MiB
_ROWS = 1000  # rows that are looked at
_FITTING = 0.9  # share of the rows that have as many cells as the first
_ROWS_BESIDE = 10  # from this many rows on, rows that all have one cell more than the first are a table
_PARTS, _PART_BYTES = 16, 64 << 10  # 64 KiB
_NO_NUMBER = {"", "?", "-", "na", "n/a", "nan", "null", "none"}
_YEARS = range(1800, 2200)
_MUCH_LESS = 10  # times
_IN_QUOTES = re.compile(r'"(?:[^"]|"")*"')
_BLANK_AND_QUOTE = re.compile(r'[ \t]+"')
_EXCEL = re.compile(r'"?sep=(.)"?[;,\t]*(?:\r\n?|\n)')
_BETWEEN_BLANKS = re.compile(r'"[^"]*"(?: "[^"]*")+\r?\n')  # a header as R writes it
_WITHOUT_BLANKS = (
    'import csv, sys; csv.writer(sys.stdout, delimiter={0}, lineterminator="\\n").writerows('
    "csv.reader(sys.stdin, delimiter={0}, skipinitialspace=True))"
)
_DATE = re.compile(r"\s*[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}(?![0-9.])")


def find(
    inputs: Sequence[Input], given: Mapping[str, object], *, guess: bool, remembered: Container[str] = ()
) -> dict[str, str]:
    """Values of the dialect's flags that are not `given`, for the first file of `inputs`.

    Without `guess`, it takes only what is certain: never Latin-1, never a missing header, no quotes but ". A
    byte order mark, or letters of UTF-8, override an encoding that is `remembered`, not that of a flag.
    """
    sought = {"delimiter", "encoding", "header"} | ({"quote", "escape"} if guess else set())
    if sought <= given.keys() and "encoding" not in remembered:
        return {}
    file = next((file for file in files.list_files(inputs[0]) if file.bytes), None)
    if file is None:
        return {}
    with ByteStream(file.path) as stream:
        start = stream.read(_START_BYTES)
    is_marked = "encoding" in remembered and byte_streams.tells_encoding(start)
    known = given.get("encoding") if not is_marked else None
    encoding = str(known or _encoding(file, start, guess=guess))
    text = start.decode(encoding, "replace").removeprefix("\ufeff")
    if len(start) == _START_BYTES:
        text = text[: text.rfind("\n") + 1] or text
    said = given.get("delimiter")
    delimiter = separator(str(said)) if said else delimiter_of(text) or _by_name(file.path)
    quotes = {
        name: quoting(str(given.get(name, "")), name, default=default)
        for name, default in (("quote", '"'), ("escape", NONE))
    }
    dialect = Dialect(delimiter=delimiter, **quotes)
    if guess:
        dialect = _with_quotes_of(text, dialect, given=quotes.keys() & given.keys())
    sure = not guess or bool(given.get("column_names"))
    found = "yes" if sure or has_header(first_rows(text, dialect)) else "no"
    header = str(given.get("header") or found)
    return {"delimiter": delimiter, "encoding": encoding, "header": header} | dialect.own_quotes


def delimiter_of(text: str) -> str | None:
    """The character that splits all rows of `text` into the same number of cells; None for one column."""
    fitting = _fitting(text, quote='"')
    best, share = _best(fitting)
    if share >= _FITTING:
        return best
    plain, share = _best(_fitting(text, quote=NONE))  # stray quotes may join rows
    if share == 1 > fitting.get(plain, 0):
        return plain
    single, share = _best(_fitting(text, quote="'")) if "'" in text else (None, 0.0)
    if share >= _FITTING:
        return single
    return "," if best == "," else None


def _best(fitting: Mapping[str, float]) -> tuple[str | None, float]:
    """The delimiter that fits the largest fraction of the rows, and this fraction; None and 0 without one."""
    return max(fitting.items(), key=lambda each: each[1], default=(None, 0.0))


def _fitting(text: str, *, quote: str) -> dict[str, float]:
    """Returns, by delimiter, the fraction of the rows that have as many cells as the first.

    Where all other rows have one cell more, or all one less, as under a header that R wrote, their fraction
    is returned.
    """
    found = {
        delimiter: [len(row) for row in first_rows(text, Dialect(delimiter=delimiter, quote=quote))]
        for delimiter in _DELIMITERS
    }
    return {
        delimiter: round(max(sizes.count(sizes[0]), _beside(sizes)) / len(sizes), 1)
        for delimiter, sizes in found.items()
        if sizes and sizes[0] > 1
    }


def _beside(sizes: Sequence[int]) -> int:
    """Counts the rows after the first, if there are at least ten and all have one cell more, or all one
    less.
    """
    first, *others = sizes
    is_beside = len(set(others)) == 1 and abs(others[0] - first) == 1
    return len(others) if is_beside and len(others) >= _ROWS_BESIDE else 0


def _with_quotes_of(text: str, dialect: Dialect, *, given: Collection[str] = ()) -> Dialect:
    """Returns `dialect` with the quotes that leave the fewest lines odd; unchanged where other quotes do no
    better, and in the fields that are `given`.

    A backslash is an escape only where it stands before a quote or, in rows without quotes, before a
    delimiter or a line end.
    """
    escaped, least = dataclasses.replace(dialect, escape="\\"), _odd_lines(text, dialect)
    if "escape" not in given and _are_escaped(text, dialect) and _odd_lines(text, escaped) <= least:
        return escaped
    if not least or len(given) == 2:
        return dialect
    others = [escaped] if '\\"' in text else []
    others += [
        dataclasses.replace(dialect, quote=quote) for quote in (NONE, "'") if quote != dialect.delimiter
    ]
    if f"\\{dialect.delimiter}" in text or "\\\n" in text:
        others.append(dataclasses.replace(escaped, quote=NONE))
    odd = {
        other: _odd_lines(text, other)
        for other in others
        if all(getattr(other, name) == getattr(dialect, name) for name in given)
    }
    best = min(odd, key=odd.__getitem__, default=dialect)
    return best if _MUCH_LESS * odd.get(best, least) < least else dialect


def _are_escaped(text: str, dialect: Dialect) -> bool:
    """Returns whether there are quotes within cells, and a backslash before nearly all of them."""
    if '\\"' not in text:
        return False
    cells = [cell for row in first_rows(text, dialect) for cell in row if '"' in cell]
    escaped, all_quotes = (sum(cell.count(sign) for cell in cells) for sign in ('\\"', '"'))
    return bool(cells) and escaped >= _FITTING * all_quotes


def _odd_lines(text: str, dialect: Dialect) -> int:
    """Counts the lines of rows with another number of cells than the first, or with quotes out of place."""
    rows = first_rows(text, dialect)
    wrong = sum(1 + "".join(row).count("\n") for row in rows if len(row) != len(rows[0]))
    lines = RowLines(dialect, cells=len(rows[0]) if rows else 0)
    lines.add(text.encode("utf-8", "replace"))
    if len(text) < _START_BYTES:
        lines.add(b"")
    odd = sum(row.lines for row in lines.odd().values() if row.flaw or row.doubt)
    quoted = sum(any(map(_IN_QUOTES.fullmatch, row)) for row in rows) if dialect.quote == NONE else 0
    return wrong + odd + quoted


# --- Tables that no flag makes readable: what was done to them, and a command that undoes it.

_TITLES = 20  # lines above a table, at most
_NO_TABLES = (
    (re.compile(r'\s*\{\s*"'), "an object of JSON", "Give --format=jsonl, if each line is one."),
    (re.compile(r"\s*\[\s*\{"), "a JSON array", "Run jq -c '.[]' FILE > NEW.jsonl and read that."),
    (re.compile(r"\s*<(?:!doctype|html)", re.IGNORECASE), "a page of HTML", "Get the table itself."),
)
# What stands between cells, though no --delimiter is it, and the command that makes tabs of it.
_LONG_DELIMITERS = (
    (re.compile("::"), "'::'", r"sed 's/::/\t/g'"),
    (re.compile(r"\|\|"), "'||'", r"sed 's/||/\t/g'"),
    (re.compile("  +"), "several blanks", r"sed 's/^ *//; s/ *$//; s/  */\t/g'"),
)


def check_first_rows(text: str, dialect: Dialect, *, path: str, encoding: str, has_header: bool) -> None:
    """Raises InputError where the first rows, `text`, show what is wrong with the header or the quotes."""
    rows = first_rows(text if len(text) < _START_BYTES else text[: text.rfind("\n") + 1], dialect)
    sign = {"\t": r"\t"}.get(dialect.delimiter) or re.sub(r"[/.*\[\]^$&\\]", r"\\\g<0>", dialect.delimiter)
    _check_is_table(text, path)
    if found := _EXCEL.match(text):
        received, command = f"{found[0].strip()!r}, a line for Excel", "sed 1d"
    elif dialect.quote == '"' and 2 * _with_blanks(rows[1:]) >= max(2, len(rows)):
        received = f"blanks between {dialect.delimiter!r} and a quote, which is text then"
        command = f"python3 -c {shlex.quote(_WITHOUT_BLANKS.format(json.dumps(dialect.delimiter)))}"
    elif found := _long_delimiter(rows):
        received, command = found
    elif rows and has_header and (above := _lines_above(text, rows)):
        received, command = f"{above:,} lines above the table, such as {rows[0][0]!r}", f"sed 1,{above}d"
    elif rows and has_header and (known := _misfit(rows, sign)):
        received, command = known
    elif _BETWEEN_BLANKS.match(text) and dialect.delimiter != " ":
        received, command = "names in quotes with blanks between them", ""
    else:
        return
    if command and "\n" not in text:  # sed would take the file for one line
        command = rf"tr '\r' '\n' | {command}"
    if command and not byte_streams.keeps_ascii_bytes(encoding):
        command = f"iconv -f {for_iconv(encoding)} -t utf-8 | {command}"
    raise InputError(
        f"input {path}, first rows",
        received=received,
        expected=f"names of columns, then rows of as many cells with {dialect.delimiter!r} between them",
        action=f"Run {cat(path)} | {command} > fixed.csv and read that."
        if command
        else "Give --delimiter=' '.",
    )


def _check_is_table(text: str, path: str) -> None:
    for start, kind, remedy in _NO_TABLES:
        if start.match(text):
            raise InputError(f"input {path}", received=kind, expected="delimited text", action=remedy)


def _long_delimiter(rows: Sequence[Sequence[str]]) -> tuple[str, str] | None:
    """Returns what stands between the cells of rows of one cell, and a command that makes tabs of it."""
    lines = [row[0].strip() for row in rows if len(row) == 1]
    if len(lines) < max(3, len(rows)):
        return None
    for sign, name, command in _LONG_DELIMITERS:
        sizes = {len(line.split() if sign.pattern.startswith(" ") else sign.split(line)) for line in lines}
        if len(sizes) == 1 and min(sizes) > 1 and any(map(sign.search, lines)):
            return f"{name} between cells, where a delimiter is one character", command
    return None


def cat(path: str) -> str:
    """The shell's command that prints a file, decompressed."""
    command = {".gz": "zcat", ".bz2": "bzcat", ".zst": "zstdcat"}.get(path[path.rfind(".") :], "cat")
    return f"{command} {shlex.quote(path)}"


def for_iconv(encoding: str) -> str:
    """The name of an encoding as iconv knows it."""
    return codecs.lookup(encoding).name.replace("-le", "le").replace("-be", "be")


def _with_blanks(rows: Sequence[Sequence[str]]) -> int:
    """Counts the rows in which a blank stands before a quote."""
    return sum(any(map(_BLANK_AND_QUOTE.match, row)) for row in rows)


def _lines_above(text: str, rows: Sequence[Sequence[str]]) -> int:
    """Counts the lines, such as a title or comments, that have fewer cells than all rows after them."""
    size = len(rows[-1])
    titles = next((at for at, row in enumerate(rows) if len(row) == size), 0)
    is_table = len(rows) - titles > 2 and all(len(row) == size for row in rows[titles:])
    is_above = 0 < titles <= _TITLES and all(len(row) < size for row in rows[:titles])
    if not is_table or not is_above or (titles == 1 and len(rows[0]) == size - 1):
        return 0
    return [at for at, line in enumerate(text.splitlines()) if line.strip()][titles]


def _misfit(rows: Sequence[Sequence[str]], sign: str) -> tuple[str, str] | None:
    """Returns how a header differs by one cell from all rows (at least two), and a command that corrects it.

    `sign` is the delimiter as sed writes it.
    """
    header, *others = rows
    sizes = {len(row) for row in others}
    if len(others) < 2 or len(sizes) > 1:
        return None
    surplus = sizes.pop() - len(header)
    if surplus == -1 and not header[-1]:
        return "a delimiter at the end of the header", rf"sed '1s/{sign}\(\r\?\)$/\1/'"
    if surplus != 1:
        return None
    if any(row[-1] for row in others):
        return (
            "one name less than rows have cells, as where R writes names of rows",
            f"sed '1s/^/row_name{sign}/'",
        )
    several_lines = any("\n" in cell for row in others for cell in row)
    command = rf"sed '1s/\r\?$/{sign}unnamed&/'" if several_lines else rf"sed '2,$s/{sign}\(\r\?\)$/\1/'"
    return "a delimiter at the end of each row", command


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Returns whether the first row names the columns, and does not look like the other rows.

    It does not if it holds a date in a column of dates, or numbers in all columns of numbers. In a table of
    text it does not if half of its cells occur again in their columns.
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


def named_delimiter(delimiter: str) -> str:
    return _NAMES_OF_DELIMITERS.get(delimiter, repr(delimiter))


def format_dialect(values: Mapping[str, object]) -> str:
    """Formats in one line how the files are read, from the values of all flags."""
    by = f"{named_delimiter(str(values['delimiter']))} (--delimiter)"
    names = "the first row names the columns"
    if values.get("column_names"):
        names = "the columns are named by --column_names"
    elif values["header"] == "no":
        names = "no header, so the columns are column_1, column_2, …"
    if quote := values.get("quote"):
        by += ", quotes are text (--quote=none)" if quote == NONE else f", in quotes {quote} (--quote)"
    if escape := values.get("escape"):
        what = "delimiters and line ends" if quote == NONE else "quotes"
        by += f", {escape} before {what} that are text (--escape)"
    return f"Read as CSV: cells between {by}, {values['encoding'].upper()} (--encoding), {names} (--header)."


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
    return "\t" if ".tsv" in path.rpartition("/")[2].lower() else ","


def first_rows(text: str, dialect: Dialect) -> list[list[str]]:
    """The first rows that are not blank, as far as the csv module reads them."""
    found: list[list[str]] = []
    with contextlib.suppress(csv.Error):  # a cell of more than 128 KiB raises it
        found.extend(itertools.islice(filter(None, dialect.read(text)), _ROWS))
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
