"""What the workers tell the launcher at the end of a job: everything but the records."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import apache_beam as beam

from beam_jobs.sources.pieces import rejections
from beam_jobs.sources.pieces.rejections import Rejected

# Outputs of the workers beside their main one.
READ = "read"
REJECTED = "rejected"
LINES = "lines"


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenFile:
    """A file of results: it lies at `path` until it is published as `file_name`."""

    path: str
    file_name: str
    rows: int
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """Counts come from the data that flowed, not from runner metrics, which may be estimates."""

    rows_read: int
    rejected: Rejected
    files: tuple[Any, ...]  # each a WrittenFile of the job's own kind, in the order of their names
    # What `pipeline.data.statistics` gathered of each split, as bytes; empty where a job measures nothing.
    statistics: Mapping[str, bytes]
    # Of pieces that are a part of a file, by their names.
    lines: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def rows_written(self) -> int:
        return sum(file.rows for file in self.files)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where the graph of a job ends. Each of `rejected` is one `beam.ParDo`'s share of the rows left out."""

    read: beam.PCollection[int]
    rejected: tuple[beam.PCollection[rejections.Rejection], ...]
    files: beam.PCollection[WrittenFile]
    statistics: beam.PCollection[tuple[str, bytes]] | None = None  # split, what was gathered of it
    # The name of a piece that is a part of a file, and its lines.
    lines: beam.PCollection[tuple[str, int]] | None = None
