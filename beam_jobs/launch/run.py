"""The skeleton of a job: claim the output, run the graph, check the result, publish all of it or nothing."""

import contextlib
import dataclasses
import datetime
import functools
import gc
import os
import pathlib
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from beam_jobs.launch import outcome as outcome_lib
from beam_jobs.launch import output as output_lib
from beam_jobs.launch import runners
from beam_jobs.launch.outcome import Outcome, Outputs, WrittenFile
from beam_jobs.launch.output import Destination
from beam_jobs.sources import byte_streams, files, source
from beam_jobs.sources.source import InputSplit, Rejected, Source
from pipeline.base import files as files_lib
from pipeline.base.errors import printable
from pipeline.base.progress import Bar

# --- The outcome: workers save it in one small file, which the launcher loads.


def gather(pipeline: beam.Pipeline, outputs: Outputs, path: str) -> None:
    """Adds the end of the graph: writes the `Outcome` to `path`."""
    rejected = (
        outputs.rejected
        | "AllRejected" >> beam.Flatten()
        | "Rejected" >> beam.CombineGlobally(source.CollectRejected()).without_defaults()
    )
    read = outputs.read | "RowsRead" >> beam.CombineGlobally(sum).without_defaults()
    statistics, noted = outputs.statistics, outputs.noted
    counted = {} if noted is None else beam.pvalue.AsDict(noted | "Noted" >> beam.CombinePerKey(sum))
    _ = (
        pipeline
        | "Outcome" >> beam.Create([path])
        | "Save"
        >> beam.Map(
            _save,
            rows_read=beam.pvalue.AsSingleton(read, default_value=0),
            rejected=beam.pvalue.AsSingleton(rejected, default_value=source.NO_REJECTIONS),
            written=beam.pvalue.AsList(outputs.files),
            lines={} if outputs.lines is None else beam.pvalue.AsDict(outputs.lines),
            statistics={} if statistics is None else beam.pvalue.AsDict(statistics),
            noted=counted,
        )
    )


def load_gathered(path: str, *, file_type: type[WrittenFile]) -> Outcome:
    """Loads an outcome; raises InputError where its files are outside the directory of `path`."""
    content, directory = files.read_bytes(path), FileSystems.split(path)[0]
    return outcome_lib.loads_outcome(content, file_type=file_type, directory=directory)


def _save(
    path: str,
    *,
    rows_read: int,
    rejected: Rejected,
    written: Sequence[WrittenFile],
    lines: Mapping[str, int],
    statistics: Mapping[str, bytes],
    noted: Mapping[str, int],
) -> None:
    outcome = Outcome(
        rows_read=rows_read,
        rejected=rejected,
        files=tuple(sorted(written, key=lambda file: file.file_name)),
        lines=dict(sorted(lines.items())),
        statistics=statistics,
        noted=dict(sorted(noted.items())),
    )
    files.write_bytes(path, outcome_lib.dumps_outcome(outcome))


# --- Progress of a local run.


_SECONDS_BETWEEN_LOOKS = 0.2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """Counts of rows read and written so far. Every worker process appends lines and rewrites none."""

    path: str

    def add(self, *, read: int = 0, written: int = 0) -> None:
        # One short write in append mode is atomic, so lines of several processes do not mix. O_CREAT is left
        # out: a worker that outlives a killed run must not bring its directory back.
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            os.write(descriptor, f"{read} {written}\n".encode())
            os.close(descriptor)

    def totals(self) -> tuple[int, int]:
        """Rows read and rows written by all workers together."""
        lines = pathlib.Path(self.path).read_text().splitlines()
        counts = [tuple(map(int, line.split())) for line in lines]
        return sum(read for read, _ in counts), sum(written for _, written in counts)


@contextlib.contextmanager
def progress_bar(progress: Progress, doing: str = "converting") -> Iterator[None]:
    """Draws a bar of rows read, then of rows written out of them, for as long as the block runs."""
    pathlib.Path(progress.path).touch()
    finished = threading.Event()
    painter = threading.Thread(target=_paint, args=(progress, doing, finished), daemon=True)
    painter.start()
    try:
        yield
    finally:
        finished.set()
        painter.join()


def _paint(progress: Progress, doing: str, finished: threading.Event) -> None:
    with Bar(unit=" rows", desc="reading", delay=0) as bar:
        while not finished.wait(_SECONDS_BETWEEN_LOOKS):
            draw(bar, progress, doing)


def draw(bar: Bar, progress: Progress, doing: str) -> None:
    """Draws rows written out of rows read; until the first is written, which is after all are read, the rows
    read.
    """
    read, written = progress.totals()
    bar.total, bar.n = (read, written) if written else (None, read)
    bar.set_description_str(doing if written else "reading", refresh=False)
    bar.refresh()


Published = TypeVar("Published", covariant=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """Settings and time of a job's start."""

    runner: str
    beam_flags: tuple[str, ...]
    max_rejected_fraction: float  # fraction of the rows read
    max_unlabelled_fraction: float = 0.0  # the same, of rows that have no label
    started: datetime.datetime = dataclasses.field(
        default_factory=functools.partial(datetime.datetime.now, datetime.UTC)
    )
    _monotonic: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._monotonic

    @property
    def workers(self) -> int:
        """Local worker processes; 1 where Beam's own flags decide."""
        option = "--direct_num_workers="
        given = [flag.removeprefix(option) for flag in self.beam_flags if flag.startswith(option)]
        return int(given[-1]) if given else 1


class Job(Protocol[Published]):
    """The parts in which `convert` and `predict` differ."""

    run: Run
    source: Source
    input_splits: Sequence[InputSplit]  # input splits of the whole input
    doing: str  # what the progress bar says
    file_type: type[WrittenFile]  # type of the files that the workers write

    def build(self, pipeline: beam.Pipeline, *, directory: str, progress: Progress) -> Outputs:
        """The graph of the job, whose workers write their files into `directory`."""

    def check_reconciled(self, outcome: Outcome) -> None:
        """Raises InputError unless every row read came out once."""

    def publish(self, outcome: Outcome, destination: Destination) -> Published:
        """Raises InputError where nothing may be published."""


def run_job(job: Job[Published], *, output: str) -> Published:
    """Runs `job` and publishes its results in `output`; a run that fails leaves nothing behind."""
    run = job.run
    options = runners.pipeline_options(run.runner, run.beam_flags)
    gc.freeze()  # imported objects stay, so no collection need look through them
    with runners.one_line_errors(output), output_lib.claimed(output) as destination:
        watched = Progress(path=str(destination.local / "progress"))
        runner = runners.make_runner(run.runner, options, directory=destination.local)
        # A pipeline that is interrupted leaves a directory behind.
        with files_lib.temporary_files_in(destination.local):
            pipeline = beam.Pipeline(runner=runner, options=options)
        result = FileSystems.join(destination.shared, "outcome")
        outputs = job.build(pipeline, directory=destination.shared, progress=watched)
        gather(pipeline, outputs, result)
        with runners.bad_input_from_workers(), progress_bar(watched, job.doing):
            runners.run_to_end(pipeline)
        files.check_unchanged(job.input_splits)
        found = load_gathered(result, file_type=job.file_type)
        rejected = byte_streams.lines_in_files(found.rejected, job.input_splits, found.lines)
        found = dataclasses.replace(found, rejected=rejected)
        job.check_reconciled(found)
        given, what = found.given
        source.check_rejection_limit(
            found.rejected,
            rows_read=given,
            what=what,
            has_encoding=source.takes_encoding(job.source),
            limit=run.max_rejected_fraction,
            unlabelled_limit=run.max_unlabelled_fraction,
        )
        for doubt in source.format_doubts(found.rejected.doubts, found.rejected.doubtful):
            print(f"warning    {printable(doubt)}", file=sys.stderr)
        return job.publish(found, destination)
