"""What the workers tell the launcher at the end of a job: one small file with everything but the records."""

import dataclasses
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from beam_jobs.sources.pieces import rejections
from beam_jobs.sources.pieces.rejections import Rejected
from pipeline.data.dataset.statistics import SplitStatistics

# Outputs of the workers beside their main one.
READ = "read"
REJECTED = "rejected"

_UNCOMPRESSED = "uncompressed"


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
    statistics: Mapping[str, SplitStatistics]  # by split; empty where a job measures nothing

    @property
    def rows_written(self) -> int:
        return sum(file.rows for file in self.files)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where the graph of a job ends. Each of `rejected` is one `beam.ParDo`'s share of the rows left out."""

    read: beam.PCollection[int]
    rejected: tuple[beam.PCollection[rejections.Rejection], ...]
    files: beam.PCollection[WrittenFile]
    statistics: beam.PCollection[tuple[str, bytes]] | None = None  # split, pickled SplitStatistics


def gather(pipeline: beam.Pipeline, outputs: Outputs, path: str) -> None:
    """Adds the end of the graph: writes the `Outcome` to `path`."""
    rejected = (
        outputs.rejected
        | "AllRejected" >> beam.Flatten()
        | "Rejected" >> beam.CombineGlobally(rejections.CollectRejected()).without_defaults()
    )
    read = outputs.read | "RowsRead" >> beam.CombineGlobally(sum).without_defaults()
    statistics = outputs.statistics
    _ = (
        pipeline
        | "Outcome" >> beam.Create([path])
        | "Save"
        >> beam.Map(
            _save,
            rows_read=beam.pvalue.AsSingleton(read, default_value=0),
            rejected=beam.pvalue.AsSingleton(rejected, default_value=rejections.NOTHING),
            files=beam.pvalue.AsList(outputs.files),
            statistics={} if statistics is None else beam.pvalue.AsDict(statistics),
        )
    )


def load(path: str) -> Outcome:
    with FileSystems.open(path, compression_type=_UNCOMPRESSED) as file:
        return pickle.loads(file.read())


def _save(
    path: str,
    *,
    rows_read: int,
    rejected: Rejected,
    files: Sequence[WrittenFile],
    statistics: Mapping[str, bytes],
) -> None:
    outcome = Outcome(
        rows_read=rows_read,
        rejected=rejected,
        files=tuple(sorted(files, key=lambda file: file.file_name)),
        statistics={split: pickle.loads(measured) for split, measured in statistics.items()},
    )
    with FileSystems.create(path, compression_type=_UNCOMPRESSED) as file:
        file.write(pickle.dumps(outcome))
