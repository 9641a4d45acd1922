"""The raw formats that --format names: one table for the command line, the names of files, and the tests."""

import dataclasses
import mimetypes
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beam_jobs.sources import bigquery, byte_streams, dialect, tfds
from beam_jobs.sources.alike import check_alike
from beam_jobs.sources.avro import AvroFiles
from beam_jobs.sources.bigquery import BigQueryTables
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.files import COMPRESSION, list_files
from beam_jobs.sources.images import ImageFolders
from beam_jobs.sources.jsonl import JsonLines
from beam_jobs.sources.parquet import ParquetFiles
from beam_jobs.sources.source import Input, Source
from beam_jobs.sources.text import UNITS, TextFiles
from beam_jobs.sources.tfds import TfdsDatasets
from beam_jobs.sources.tfrecord import ExampleFiles
from pipeline.base.cli import flags
from pipeline.base.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """A flag that one raw format reads, and the field of its source that the flag sets."""

    flag: str
    field: str
    default: Any  # a string, or a tuple for a flag with a list; empty: detected, or the default of the source
    help: str
    choices: tuple[str, ...] = ()  # empty: any value
    usual: str = ""  # the value that a schema need not note
    parse: Callable[[Any], Any] = lambda value: value  # may raise InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Format:
    """A raw format: its source, its flags, and the locations that name it where --format does not."""

    source: Callable[..., Source]  # called with a keyword for each option's field
    options: tuple[Option, ...] = ()
    endings: tuple[str, ...] = ()  # endings of file names, before the ending of a compression
    prefix: str = ""  # beginning of locations that are not files
    find: Callable[..., Mapping[str, str]] | None = None  # like dialect.find: values of flags, from the files
    check: Callable[..., None] | None = None  # like check_alike: raises InputError where files differ


def _different(names: Sequence[str]) -> tuple[str, ...]:
    """Checks names of columns; raises InputError where two are equal, or one is empty."""
    if len(set(names)) < len(names) or not all(names):
        raise InputError(
            "--column_names",
            received=",".join(names),
            expected="a name for each column, all different",
            action="Correct the names.",
        )
    return tuple(names)


FORMATS: Mapping[str, Format] = {
    "csv": Format(
        source=CsvFiles,
        endings=(".csv", ".tsv"),
        find=dialect.find,
        check=check_alike,
        options=(
            Option(
                flag="column_names",
                field="column_names",
                default=(),
                help="A,B,…: column names of CSV files that have no header.",
                parse=_different,
            ),
            Option(
                flag="delimiter",
                field="delimiter",
                default="",
                help="CHARACTER: separates CSV cells; \\t for a tab. The default is what infer_schema noted "
                "in the schema, else what the first file shows.",
                parse=lambda text: flags.separator(text or ","),
            ),
            Option(
                flag="quote",
                field="quote",
                default="",
                help="CHARACTER: encloses CSV cells; none means that quotes are text. The default is found "
                'by infer_schema, else ".',
                parse=lambda text: flags.quoting(text, "quote", default='"'),
                usual='"',
            ),
            Option(
                flag="escape",
                field="escape",
                default="",
                help="CHARACTER: stands before quotes, delimiters and line ends that are text in a CSV cell, "
                "usually a backslash; none means that two quotes stand for one. The default is found as for "
                "--quote.",
                parse=lambda text: flags.quoting(text, "escape", default="none"),
                usual="none",
            ),
            Option(
                flag="encoding",
                field="encoding",
                default="",
                help="NAME: the encoding of CSV files, as Python calls it: utf-8, utf-16, latin-1, cp1252, … "
                "The default is found as for --delimiter.",
                parse=lambda name: byte_streams.check_encoding(name or byte_streams.UTF_8),
            ),
            Option(
                flag="header",
                field="header",
                default=None,
                help="Whether the first row of CSV files names the columns. no: they are called column_1, "
                "column_2, …. The default is what infer_schema found, else yes.",
                choices=("yes", "no"),
                parse=lambda text: text or "yes",
            ),
        ),
    ),
    "text": Format(
        source=TextFiles,
        endings=(".txt",),
        options=(
            Option(
                flag="text_unit",
                field="unit",
                default="line",
                help="The unit of a text file that becomes a row; a document is a whole file. infer_schema "
                "notes it in the schema.",
                choices=UNITS,
            ),
        ),
    ),
    "avro": Format(source=AvroFiles, endings=(".avro",)),
    "bigquery": Format(source=BigQueryTables, prefix=bigquery.PREFIX),
    "images": Format(source=ImageFolders),
    "jsonl": Format(source=JsonLines, endings=(".jsonl", ".ndjson")),
    "parquet": Format(source=ParquetFiles, endings=(".parquet",)),
    "tfds": Format(source=TfdsDatasets, prefix=tfds.PREFIX),
    "tfrecord": Format(source=ExampleFiles, endings=(".tfrecord", ".tfrecords")),
}


def open_source(raw_format: str, values: Mapping[str, Any] | None = None) -> Source:
    """Makes the source of `raw_format`, one of `FORMATS`; a flag that is not in `values` has its default."""
    given = values or {}
    found = FORMATS[raw_format]
    fields = {option.field: option.parse(given.get(option.flag, option.default)) for option in found.options}
    return found.source(**fields)


def settings_of(source: Source) -> dict[str, Any]:
    """The flags from which `open_source` makes this source, without those that are empty or off."""
    known = next((known for known in FORMATS.values() if isinstance(source, known.source)), None)
    options = known.options if known else ()
    fields = {option: getattr(source, option.field) for option in options}
    return {
        option.flag: list(value) if isinstance(value, tuple) else value
        for option, value in fields.items()
        if value and value != option.usual
    }


_PACKED = (".xz", ".zip", ".7z", ".rar", ".tar", ".tgz", ".lz4", ".z", ".tar.gz", ".tar.bz2")


def format_of(
    inputs: Sequence[Input], formats: Mapping[str, Format] = FORMATS, *, remembered: object = None
) -> str:
    """The one raw format: by the names of `inputs`, else by what is `remembered`, else by the files in them.

    Raises InputError.
    """
    found = {_of_name(given.location, formats) for given in inputs}
    if found == {None} and remembered in formats:
        return remembered
    found = {_of_name(given.location, formats) or _of_files(given, formats) for given in inputs}
    if len(found) != 1 or None in found:
        endings = sorted(ending for known in formats.values() for ending in known.endings)
        raise InputError(
            "--format",
            received=f"nothing, and inputs {', '.join(given.location for given in inputs)}",
            expected=f"files whose names all end in one of {', '.join(endings)}",
            action=_what_to_give(inputs, formats),
        )
    return found.pop()


def do_names_tell(inputs: Sequence[Input]) -> bool:
    """Returns whether the name of each input tells its raw format."""
    return all(_of_name(given.location, FORMATS) for given in inputs)


def _of_files(given: Input, formats: Mapping[str, Format]) -> str | None:
    """Returns the format of all files of a folder or a glob; None where they differ."""
    found = {_of_name(file.path, formats) for file in list_files(given, deep=True)}
    return found.pop() if len(found) == 1 else None


def _what_to_give(inputs: Sequence[Input], formats: Mapping[str, Format]) -> str:
    media, files = _media(inputs), _files_by_format(inputs, formats)
    if len(files) > 1 and (known := next(filter(None, files), None)):
        folder, _, name = files[known].rpartition("/")
        others = ", ".join(path for name, path in files.items() if name != known)
        glob = shlex.quote(f"--input={folder}/*{name[name.rfind('.') :]}")
        return f"There are files of other kinds, such as {others}: name those that are meant, as {glob}."
    if all(given.location.lower().endswith((".json", ".geojson")) for given in inputs):
        return (
            "If each line is an object: --format=jsonl. If the file is one array: jq -c '.[]' FILE > "
            "NEW.jsonl, and read that."
        )
    if media == {"image"}:
        return "These are images: give --format=images."
    if packed := [given.location for given in inputs if given.location.lower().endswith(_PACKED)]:
        return f"Unpack {packed[0]} first; files that are read packed end in {', '.join(COMPRESSION)}."
    if media and media <= {"audio", "video"}:
        return f"No format reads {' or '.join(sorted(media))}: store pictures of it, or columns of numbers."
    return f"Give --format, one of {', '.join(formats)}."


def _files_by_format(inputs: Sequence[Input], formats: Mapping[str, Format]) -> dict[str | None, str]:
    """Returns the first file of each format, as names tell it; None is the key of files whose names do
    not.
    """
    found: dict[str | None, str] = {}
    for path in (file.path for given in inputs for file in list_files(given, deep=True)):
        found.setdefault(_of_name(path, formats), path)
    return found


def _media(inputs: Sequence[Input]) -> set[str]:
    """Returns what the files are by their names: image, audio, …; empty text where a name does not tell."""
    found = (file.path for given in inputs for file in list_files(given, deep=True))
    return {(mimetypes.guess_type(path)[0] or "").partition("/")[0] for path in found}


def _of_name(location: str, formats: Mapping[str, Format]) -> str | None:
    for name, known in formats.items():
        if known.prefix and location.startswith(known.prefix):
            return name
    location = location.lower()
    for compression in COMPRESSION:
        location = location.removesuffix(compression)
    return next(
        (name for name, known in formats.items() if known.endings and location.endswith(known.endings)), None
    )
