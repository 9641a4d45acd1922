"""What a source reads of files, without a job."""

import pathlib

from beam_jobs.sources.source import Input, RawRows, Source


def read(source: Source, location: pathlib.Path | str) -> list[RawRows]:
    """Returns all that is read at `location`, one input split after the other."""
    splits = source.input_splits([Input(location=str(location))])
    return [raw for split in splits for raw in source.read(split)]


def cells(source: Source, location: pathlib.Path | str) -> list[dict]:
    """Returns the rows that could be cut into columns."""
    return [row for raw in read(source, location) for row in raw.columns.to_pylist()]
