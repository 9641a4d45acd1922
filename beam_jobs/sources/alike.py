"""Whether CSV files that are read together are written alike; one source reads all of them in one way."""

import collections
import concurrent.futures
import csv
import dataclasses
import itertools
import shlex
from collections.abc import Mapping, Sequence

from beam_jobs.sources import byte_streams, files
from beam_jobs.sources.byte_streams import ByteStream
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.csv_rows import Dialect
from beam_jobs.sources.dialect import (
    cat,
    delimiter_of,
    first_rows,
    for_iconv,
    has_header,
    named_delimiter,
)
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError

_HEAD_BYTES = 64 << 10  # 64 KiB
_FILES_AT_ONCE = 16
_SHOWN_NAMES = 4
_GUIDE = "docs/dataset.md, Raw data, has a script that also mends decimal commas and dates."


@dataclasses.dataclass(frozen=True)
class _Form:
    """How a file's first row is written."""

    delimiter: str
    names: frozenset[str]  # the cells of the first row


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Start:
    """What the first 64 KiB of a file tell; they themselves are not kept, as there may be many files.

    Attributes:
      utf_16: its encoding, if it is one of UTF-16; else empty.
      form: None where the first row is not looked at for names.
      is_named: whether the first row looks like names; None where that is not asked.
    """

    utf_16: str
    is_ascii: bool
    is_utf_8: bool
    form: _Form | None
    is_named: bool | None


def check_alike(source: CsvFiles, inputs: Sequence[Input], *, given: Mapping[str, object]) -> None:
    """Raises InputError where files differ in their delimiter or encoding, or share no column.

    The order of columns may differ. Of a file, only its first 64 KiB are looked at.

    Args:
      given: flags that the user or a schema gave: what most files do decides the others.
    """
    paths = [file.path for one in inputs for file in files.list_files(one) if file.bytes]
    if len(paths) < 2:
        return
    has_names = source.header == "yes" and not source.column_names
    asks_for_names = source.header != "yes" and not source.column_names and "header" not in given

    def start(path: str) -> _Start:
        head = _head(path)
        text, utf_16 = _text(head, source), byte_streams.utf_16_of(head)
        return _Start(
            utf_16=utf_16 if utf_16 and utf_16 != byte_streams.UTF_8 else "",
            is_ascii=head.isascii(),
            is_utf_8=byte_streams.encoding_of([head]) == byte_streams.UTF_8,
            form=_form(text, source.dialect) if has_names else None,
            is_named=has_header(first_rows(text, source.dialect)) if asks_for_names else None,
        )

    with concurrent.futures.ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        starts = dict(zip(paths, pool.map(start, paths), strict=True))
    _check_encodings(starts, source.encoding)
    if has_names:
        _check_forms(starts, source, is_delimiter_given="delimiter" in given)
    elif asks_for_names:
        _check_none_has_header(starts, source)


def _head(path: str) -> bytes:
    with ByteStream(path) as stream:
        head = stream.read(_HEAD_BYTES)
    return head if len(head) < _HEAD_BYTES else head[: head.rfind(b"\n") + 1] or head


def _text(head: bytes, source: CsvFiles) -> str:
    return head.decode(source.encoding, "replace").removeprefix("\ufeff")


def _check_encodings(starts: Mapping[str, _Start], encoding: str) -> None:
    """Raises InputError for UTF-16 beside other files, and for UTF-8 that would be read as Latin-1."""
    wide = {path: each.utf_16 for path, each in starts.items() if each.utf_16}
    others = [path for path in starts if path not in wide]
    if wide and others:
        path = next(iter(wide))
        raise _other_encoding(path, found=wide[path], other=others[0], expected=byte_streams.UTF_8)
    if wide or encoding == byte_streams.UTF_8 or not byte_streams.keeps_ascii_bytes(encoding):
        return
    foreign = {path: each for path, each in starts.items() if not each.is_ascii}
    proper = next((path for path, each in foreign.items() if each.is_utf_8), None)
    other = next((path for path, each in foreign.items() if not each.is_utf_8), None)
    if proper and other:
        raise _other_encoding(other, found=encoding, other=proper, expected=byte_streams.UTF_8)


def _other_encoding(path: str, *, found: str, other: str, expected: str) -> InputError:
    return InputError(
        f"input {path}",
        received=f"text in {found.upper()}",
        expected=f"one encoding in all files: {other} is in {expected.upper()}",
        action=f"Run {cat(path)} | iconv -f {for_iconv(found)} -t {expected} > fixed.csv and read that in "
        "its place.",
    )


def _check_forms(starts: Mapping[str, _Start], source: CsvFiles, *, is_delimiter_given: bool) -> None:
    by_form: dict[_Form, list[str]] = collections.defaultdict(list)
    for path, start in starts.items():
        by_form[start.form].append(path)
    # Between equals the commas win: semicolons mostly go with decimal commas.
    usual = max(
        by_form,
        key=lambda form: (
            is_delimiter_given and form.delimiter == source.delimiter,
            len(by_form[form]),
            form.delimiter == ",",
        ),
    )
    for form, paths in by_form.items():
        if form.delimiter != usual.delimiter:
            raise _other_delimiter(paths[0], form, by_form[usual], usual, len(starts), source)
        if not form.names & usual.names:
            raise _other_columns(paths[0], form, by_form[usual][0], usual, source)


def _form(text: str, dialect: Dialect) -> _Form:
    names = _first_row(text, dialect)
    if len(names) == 1 and (other := delimiter_of(text)):
        dialect = dataclasses.replace(dialect, delimiter=other)
        names = _first_row(text, dialect)
    return _Form(dialect.delimiter, frozenset(names))


def _first_row(text: str, dialect: Dialect) -> list[str]:
    try:
        return [cell.strip() for cell in next(filter(None, dialect.read(text)), [])]
    except csv.Error:  # a cell of more than 128 KiB
        return []


def _other_delimiter(
    path: str, form: _Form, usual_paths: Sequence[str], usual: _Form, of: int, source: CsvFiles
) -> InputError:
    code = (
        f"import csv, sys; csv.writer(sys.stdout, delimiter={usual.delimiter!r}, "
        f'lineterminator="\\n").writerows(csv.reader(sys.stdin, delimiter={form.delimiter!r}))'
    ).replace("'", '"')
    encoding = f"PYTHONIOENCODING={source.encoding} " if source.encoding != byte_streams.UTF_8 else ""
    return InputError(
        f"input {path}",
        received=f"{named_delimiter(form.delimiter)} between the names of columns",
        expected=f"{named_delimiter(usual.delimiter)}, as in {usual_paths[0]} ({len(usual_paths):,} of "
        f"{of:,} files): files that are read together have one delimiter",
        action=f"Run {cat(path)} | {encoding}python3 -c {shlex.quote(code)} > fixed.csv and read that in its "
        f"place. {_GUIDE}",
    )


def _other_columns(path: str, form: _Form, usual_path: str, usual: _Form, source: CsvFiles) -> InputError:
    action = "Read one kind of table at a time: name its files."
    text = _text(_head(path), source)
    first = _first_row(text, source.dialect)
    if len(first) == len(usual.names) and not has_header(first_rows(text, source.dialect)):
        action = (
            f"If it has no header: (head -n 1 {shlex.quote(usual_path)}; {cat(path)}) > fixed.csv, and "
            "read that in its place."
        )
    return InputError(
        f"input {path}",
        received=f"a first row that names none of the other files' columns: {_listed(form.names)}",
        expected=f"columns as in {usual_path}: {_listed(usual.names)}",
        action=action,
    )


def _check_none_has_header(starts: Mapping[str, _Start], source: CsvFiles) -> None:
    other = next((path for path, start in starts.items() if not start.is_named), None)
    path = next((path for path, start in starts.items() if start.is_named), None)
    if path and other:
        first = _first_row(_text(_head(path), source), source.dialect)
        raise InputError(
            f"input {other}",
            received="rows without names of columns above them",
            expected=f"names as in {path}: {_listed(first)}",
            action=f"Run (head -n 1 {shlex.quote(path)}; {cat(other)}) > fixed.csv and read that in its "
            "place. If no file has a header: --header=no.",
        )


def _listed(names: Sequence[str] | frozenset[str]) -> str:
    shown = ", ".join(map(repr, itertools.islice(sorted(names), _SHOWN_NAMES)))
    return f"{shown}, …" if len(names) > _SHOWN_NAMES else shown
