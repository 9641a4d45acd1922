"""A job that is made up here: it writes one file of numbers. Published as a whole, or not a trace of it."""

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import ClassVar

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

from beam_jobs.launch import run, runners
from beam_jobs.launch.outcome import READ, REJECTED, Outcome, Outputs, WrittenFile
from beam_jobs.launch.output import Destination
from beam_jobs.launch.run import Progress, Run, run_job
from beam_jobs.sources import files
from beam_jobs.sources.source import Input, InputSplit, Rejected, Rejection, Source
from beam_jobs.sources.text import TextFiles
from pipeline.base.cli import signals
from pipeline.base.errors import InputError
from pipeline.base.progress import Bar


class Write(beam.DoFn):
    """Numbers → a file of those that are not negative. A 0 comes out, but was never counted as read."""

    def __init__(self, directory: str) -> None:
        self._path = pathlib.Path(directory, "numbers")

    def process(self, numbers: tuple[int, ...]) -> Iterator[object]:
        good = [number for number in numbers if number >= 0]
        self._path.write_text(str(good))
        for row, number in enumerate(numbers, 1):
            if number < 0:
                yield beam.pvalue.TaggedOutput(
                    REJECTED, Rejection(source="numbers", row=row, reason="negative")
                )
        yield beam.pvalue.TaggedOutput(READ, len(numbers) - numbers.count(0))
        yield WrittenFile(
            path=str(self._path), file_name="numbers.txt", rows=len(good), bytes=1, sha256="none"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Numbers:
    numbers: tuple[int, ...]
    run: Run
    input_splits: Sequence[InputSplit] = ()
    source: ClassVar[Source] = TextFiles()
    doing: ClassVar[str] = "counting"
    file_type: ClassVar[type[WrittenFile]] = WrittenFile

    def build(self, pipeline: beam.Pipeline, *, directory: str, progress: Progress) -> Outputs:
        made = (
            pipeline
            | beam.Create([self.numbers])
            | beam.ParDo(Write(directory)).with_outputs(READ, REJECTED, main="files")
        )
        return Outputs(read=made[READ], rejected=(made[REJECTED],), files=made.files)

    def check_reconciled(self, outcome: Outcome) -> None:
        if outcome.rows_read != outcome.rows_written + outcome.rejected.rows:
            raise InputError("the numbers", received="too many", expected="each once", action="Count.")

    def publish(self, outcome: Outcome, destination: Destination) -> int:
        if not outcome.rows_written:
            raise InputError("the numbers", received="none", expected="one", action="Give one.")
        for file in outcome.files:
            destination.move(file.path, file.file_name)
        destination.commit("done.json", "{}")
        return outcome.rows_written


def run_numbers(output: pathlib.Path, *numbers: int, max_rejected_fraction: float = 0.5) -> int:
    how = Run(runner="FnApiRunner", beam_flags=(), max_rejected_fraction=max_rejected_fraction)
    return run_job(Numbers(numbers=numbers, run=how), output=str(output))


def test_an_input_that_changes_while_it_is_read_is_noticed(tmp_path: pathlib.Path):
    read = tmp_path / "read.csv"
    read.write_text("1")
    job = Numbers(
        numbers=(1,),
        run=Run(runner="FnApiRunner", beam_flags=(), max_rejected_fraction=0.0),
        input_splits=files.one_split_a_file([Input(location=str(read))]),
    )
    assert run_job(job, output=str(tmp_path / "out")) == 1
    read.write_text("12")
    with pytest.raises(InputError, match=r"read\.csv: received another size .* Nothing was published"):
        run_job(job, output=str(tmp_path / "changed"))
    read.unlink()
    with pytest.raises(InputError, match=r"read\.csv: received no such file any more"):
        run_job(job, output=str(tmp_path / "gone"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_what_is_published_is_all_that_is_left(tmp_path: pathlib.Path):
    assert run_numbers(tmp_path / "out", 1, -2, 3) == 2
    assert (tmp_path / "out" / "numbers.txt").read_text() == "[1, 3]"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["done.json", "numbers.txt"]


def test_too_many_rejected_rows_publish_nothing(tmp_path: pathlib.Path):
    with pytest.raises(InputError, match=r"1 of 3 rows \(1 × negative\)"):
        run_numbers(tmp_path / "out", 1, -2, 3, max_rejected_fraction=0.1)
    assert list(tmp_path.iterdir()) == []


def test_a_limit_on_packed_text_counts_documents():
    """300 documents in 10 rows, and 2 that were rejected."""
    noted = {"documents of train": 290, "documents of test": 10, "tokens of train": 900}
    rejected = Rejected(reasons={"not UTF-8": 2}, listed=())
    made = Outcome(rows_read=12, rejected=rejected, files=(), statistics={}, noted=noted)
    assert made.given == (302, "documents")
    assert dataclasses.replace(made, noted={}).given == (12, "rows")


def test_the_bar_moves_while_rows_are_read(tmp_path: pathlib.Path):
    progress = Progress(path=str(tmp_path / "progress"))
    (tmp_path / "progress").touch()
    bar = Bar(unit=" rows", delay=0)
    progress.add(read=30)
    run.draw(bar, progress, "converting")
    assert (bar.n, bar.total) == (30, None)
    assert str(bar).startswith("reading: 30 rows [")
    progress.add(written=10)
    run.draw(bar, progress, "converting")
    assert (bar.n, bar.total) == (10, 30)
    assert str(bar).startswith("converting:  33%")
    bar.close()


def test_a_job_that_refuses_to_publish_leaves_nothing(tmp_path: pathlib.Path):
    with pytest.raises(InputError, match="the numbers: received none"):
        run_numbers(tmp_path / "out", -1, max_rejected_fraction=1.0)
    assert list(tmp_path.iterdir()) == []


def test_rows_that_do_not_add_up_publish_nothing(tmp_path: pathlib.Path):
    with pytest.raises(InputError, match="the numbers: received too many"):
        run_numbers(tmp_path / "out", 1, 0)
    assert list(tmp_path.iterdir()) == []


def test_the_last_of_several_flags_says_how_many_workers():
    flags = ("--direct_num_workers=2", "--region=x", "--direct_num_workers=3")
    assert Run(runner="FnApiRunner", beam_flags=flags, max_rejected_fraction=0.0).workers == 3
    assert Run(runner="FlinkRunner", beam_flags=(), max_rejected_fraction=0.0).workers == 1


class Submitted(PipelineResult):
    """A job on a service that goes on without its launcher."""

    def __init__(self) -> None:
        super().__init__(PipelineState.RUNNING)

    def wait_until_finish(self, duration: int | None = None) -> str:
        raise KeyboardInterrupt

    def cancel(self) -> str:
        self._state = PipelineState.CANCELLED
        return self._state


class Service(PipelineRunner):
    def run_pipeline(self, pipeline: beam.Pipeline, options: PipelineOptions) -> Submitted:
        self.submitted = Submitted()
        return self.submitted


def test_an_interrupt_cancels_a_job_that_would_go_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(signals, "signal_has_come", lambda: True)
    service = Service()
    with pytest.raises(KeyboardInterrupt):
        runners.run_to_end(beam.Pipeline(runner=service))
    assert service.submitted.state == PipelineState.CANCELLED


def test_files_stand_in_the_order_of_their_names(tmp_path: pathlib.Path):
    files = [
        WrittenFile(path=str(tmp_path / name), file_name=name, rows=1, bytes=1, sha256="") for name in "bca"
    ]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        outputs = Outputs(
            read=pipeline | "Read" >> beam.Create([1, 2]),
            rejected=(pipeline | "Rejections" >> beam.Create([]),),
            files=pipeline | "Files" >> beam.Create(files),
        )
        run.gather(pipeline, outputs, str(tmp_path / "outcome"))
    found = run.load_gathered(str(tmp_path / "outcome"), file_type=WrittenFile)
    assert [file.file_name for file in found.files] == ["a", "b", "c"]
    assert (found.rows_read, found.rows_written, found.rejected.rows) == (3, 3, 0)
