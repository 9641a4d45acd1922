"""The raw formats, by the name that --format gives them."""

from collections.abc import Callable, Mapping, Sequence

from beam_jobs.sources.avro import AvroFiles
from beam_jobs.sources.bigquery import PREFIX as BIGQUERY_PREFIX
from beam_jobs.sources.bigquery import BigQueryTables
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.images import ImageFolders
from beam_jobs.sources.jsonl import JsonLines
from beam_jobs.sources.parquet import ParquetFiles
from beam_jobs.sources.source import Input, Source
from beam_jobs.sources.text import TextFiles
from beam_jobs.sources.tfds import PREFIX as TFDS_PREFIX
from beam_jobs.sources.tfds import TfdsDatasets
from beam_jobs.sources.tfrecord import ExampleFiles
from pipeline.data.errors import InputError

_WITHOUT_OPTIONS: Mapping[str, Callable[[], Source]] = {
    "avro": AvroFiles,
    "bigquery": BigQueryTables,
    "images": ImageFolders,
    "jsonl": JsonLines,
    "parquet": ParquetFiles,
    "tfds": TfdsDatasets,
    "tfrecord": ExampleFiles,
}
FORMATS = ("csv", "text", *_WITHOUT_OPTIONS)
_OF_NAME = {
    ".avro": "avro",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
    ".tsv": "csv",
    ".txt": "text",
}


def open_source(
    raw_format: str, *, column_names: Sequence[str] = (), delimiter: str = ",", text_unit: str = "line"
) -> Source:
    """The source for `raw_format`, one of `FORMATS`, with the options that it knows."""
    if raw_format in _WITHOUT_OPTIONS:
        return _WITHOUT_OPTIONS[raw_format]()
    if raw_format == "text":
        return TextFiles(unit=text_unit)
    return CsvFiles(column_names=tuple(column_names), delimiter=delimiter)


def format_of(inputs: Sequence[Input]) -> str:
    """The one raw format that the names of `inputs` say; raises InputError."""
    formats = {_format_of(given.location) for given in inputs}
    if len(formats) != 1 or None in formats:
        raise InputError(
            "--format",
            received=f"nothing, and inputs {', '.join(given.location for given in inputs)}",
            expected=f"names that all end in one of {', '.join(_OF_NAME)}",
            action=f"Give --format, one of {', '.join(FORMATS)}.",
        )
    return formats.pop()


def _format_of(location: str) -> str | None:
    services = {TFDS_PREFIX: "tfds", BIGQUERY_PREFIX: "bigquery"}
    for prefix, found in services.items():
        if location.startswith(prefix):
            return found
    for compression in (".gz", ".bz2", ".zst"):
        location = location.removesuffix(compression)
    return next((found for end, found in _OF_NAME.items() if location.endswith(end)), None)
