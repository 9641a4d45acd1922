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
    NAMES_OF_DELIMITERS,
    cat,
    delimiter_of,
    first_rows,
    for_iconv,
    has_header,
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


def check_alike(source: CsvFiles, inputs: Sequence[Input], *, given: Mapping[str, object]) -> None:
    """Raises InputError where files differ in their delimiter or encoding, or share no column.

    The order of columns may differ. Of a file, only its first 64 KiB are looked at.

    Args:
      given: flags that the user or a schema gave: what most files do decides the others.
    """
    paths = [file.path for one in inputs for file in files.list_files(one) if file.bytes]
    if len(paths) < 2:
        return
    with concurrent.futures.ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        heads = dict(zip(paths, pool.map(_head, paths), strict=True))
    _check_encodings(heads, source.encoding)
    if source.column_names:
        return
    texts = {
        path: head.decode(source.encoding, "replace").removeprefix("\ufeff") for path, head in heads.items()
    }
    if source.header == "yes":
        _check_forms(texts, source, is_delimiter_given="delimiter" in given)
    elif "header" not in given:
        _check_none_has_header(texts, source)


def _head(path: str) -> bytes:
    with ByteStream(path) as stream:
        head = stream.read(_HEAD_BYTES)
    return head if len(head) < _HEAD_BYTES else head[: head.rfind(b"\n") + 1] or head


def _check_encodings(heads: Mapping[str, bytes], encoding: str) -> None:
    """Raises InputError for UTF-16 beside other files, and for UTF-8 that would be read as Latin-1."""
    wide = {path: found for path, head in heads.items() if (found := byte_streams.utf_16_of(head))}
    wide = {path: found for path, found in wide.items() if found != byte_streams.UTF_8}
    others = [path for path in heads if path not in wide]
    if wide and others:
        path = next(iter(wide))
        raise _other_encoding(path, found=wide[path], other=others[0], expected=byte_streams.UTF_8)
    if wide or encoding == byte_streams.UTF_8 or not byte_streams.keeps_ascii_bytes(encoding):
        return
    foreign = [path for path, head in heads.items() if not head.isascii()]
    is_utf_8 = {path: byte_streams.encoding_of([heads[path]]) == byte_streams.UTF_8 for path in foreign}
    proper = next((path for path in foreign if is_utf_8[path]), None)
    other = next((path for path in foreign if not is_utf_8[path]), None)
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


def _check_forms(texts: Mapping[str, str], source: CsvFiles, *, is_delimiter_given: bool) -> None:
    forms = {path: _form(text, source.dialect) for path, text in texts.items()}
    by_form: dict[_Form, list[str]] = collections.defaultdict(list)
    for path, form in forms.items():
        by_form[form].append(path)
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
            raise _other_delimiter(paths[0], form, by_form[usual], usual, len(texts), source)
        if not form.names & usual.names:
            raise _other_columns(paths[0], texts[paths[0]], form, by_form[usual][0], usual, source.dialect)


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
        received=f"{_named(form.delimiter)} between the names of columns",
        expected=f"{_named(usual.delimiter)}, as in {usual_paths[0]} ({len(usual_paths):,} of {of:,} files): "
        "files that are read together have one delimiter",
        action=f"Run {cat(path)} | {encoding}python3 -c {shlex.quote(code)} > fixed.csv and read that in its "
        f"place. {_GUIDE}",
    )


def _other_columns(
    path: str, text: str, form: _Form, usual_path: str, usual: _Form, dialect: Dialect
) -> InputError:
    action = "Read one kind of table at a time: name its files."
    first = _first_row(text, dialect)
    if len(first) == len(usual.names) and not has_header(first_rows(text, dialect)):
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


def _check_none_has_header(texts: Mapping[str, str], source: CsvFiles) -> None:
    named = {path: has_header(first_rows(text, source.dialect)) for path, text in texts.items()}
    other = next((path for path, is_named in named.items() if not is_named), None)
    path = next((path for path, is_named in named.items() if is_named), None)
    if path and other:
        first = _first_row(texts[path], source.dialect)
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


def _named(delimiter: str) -> str:
    return NAMES_OF_DELIMITERS.get(delimiter, repr(delimiter))
