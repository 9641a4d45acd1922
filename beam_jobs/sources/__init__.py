"""The raw formats, by the name that --format gives them."""

from collections.abc import Callable, Mapping, Sequence

from beam_jobs.sources.avro import AvroFiles
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.images import ImageFolders
from beam_jobs.sources.jsonl import JsonLines
from beam_jobs.sources.parquet import ParquetFiles
from beam_jobs.sources.source import Source
from beam_jobs.sources.tfrecord import ExampleFiles

_WITHOUT_OPTIONS: Mapping[str, Callable[[], Source]] = {
    "avro": AvroFiles,
    "images": ImageFolders,
    "jsonl": JsonLines,
    "parquet": ParquetFiles,
    "tfrecord": ExampleFiles,
}
FORMATS = ("csv", *_WITHOUT_OPTIONS)


def open_source(raw_format: str, *, column_names: Sequence[str] = (), delimiter: str = ",") -> Source:
    """The source for `raw_format`, one of `FORMATS`, with the options that it knows."""
    if raw_format in _WITHOUT_OPTIONS:
        return _WITHOUT_OPTIONS[raw_format]()
    return CsvFiles(column_names=tuple(column_names), delimiter=delimiter)
