"""The raw formats, by the name that --format gives them."""

from collections.abc import Sequence

from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.images import ImageFolders
from beam_jobs.sources.source import Source

FORMATS = ("csv", "images")


def open_source(raw_format: str, *, column_names: Sequence[str] = (), delimiter: str = ",") -> Source:
    """The source for `raw_format`, one of `FORMATS`, with the options that it knows."""
    if raw_format == "images":
        return ImageFolders()
    return CsvFiles(column_names=tuple(column_names), delimiter=delimiter)
