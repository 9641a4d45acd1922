"""The skeleton of a job: claim the output, run the graph, check what came out, publish it or nothing."""

import dataclasses
import datetime
import gc
import time
from collections.abc import Sequence
from typing import Protocol, TypeVar

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from beam_jobs.launch import failures, gathering, progress, runners
from beam_jobs.launch.outcome import Outcome, Outputs, WrittenFile
from beam_jobs.launch.progress import Progress
from beam_jobs.publication import destination as destination_lib
from beam_jobs.publication.destination import Destination
from beam_jobs.sources.pieces import line_numbers, rejections, stamps
from beam_jobs.sources.pieces.source import Piece
from pipeline.data import temporary_files

Published = TypeVar("Published", covariant=True)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """How a job was started, and when."""

    runner: str
    beam_flags: tuple[str, ...]
    max_rejected_fraction: float  # of the rows read
    started: datetime.datetime = dataclasses.field(default_factory=_now)
    _monotonic: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._monotonic

    @property
    def workers(self) -> int:
        """Local worker processes; 1 where Beam's own flags decide."""
        option = "--direct_num_workers="
        given = [flag.removeprefix(option) for flag in self.beam_flags if flag.startswith(option)]
        return int(given[-1]) if given else 1


class Job(Protocol[Published]):
    """What `convert` and `predict` differ in."""

    run: Run
    pieces: Sequence[Piece]  # of the input
    doing: str  # what the progress bar says
    file_type: type[WrittenFile]  # of the files that the workers write

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
    gc.freeze()  # what was imported stays: no collection need look through it
    with failures.told_in_one_line(output), destination_lib.claimed(output) as destination:
        watched = Progress(path=str(destination.local / "progress"))
        runner = runners.make_runner(run.runner, options, directory=destination.local)
        with temporary_files.kept_in(destination.local):  # a pipeline that is interrupted leaves a directory
            pipeline = beam.Pipeline(runner=runner, options=options)
        result = FileSystems.join(destination.shared, "outcome")
        outputs = job.build(pipeline, directory=destination.shared, progress=watched)
        gathering.gather(pipeline, outputs, result)
        with runners.bad_input_from_workers(), progress.shown(watched, job.doing):
            runners.run_to_end(pipeline)
        stamps.check_unchanged(job.pieces)
        found = gathering.load(result, file_type=job.file_type)
        rejected = line_numbers.in_files(found.rejected, job.pieces, found.lines)
        found = dataclasses.replace(found, rejected=rejected)
        job.check_reconciled(found)
        limit = run.max_rejected_fraction
        rejections.check_limit(found.rejected, rows_read=found.rows_read, limit=limit)
        return job.publish(found, destination)
