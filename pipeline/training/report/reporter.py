"""Reports the progress of a run: terminal, history.jsonl, TensorBoard, run.json and the report."""

import dataclasses
import datetime
import os
import pathlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from pipeline.base import files as files_lib
from pipeline.base.errors import InputError
from pipeline.report import html, terminal
from pipeline.report.html import Markup
from pipeline.report.section import Cell, Section
from pipeline.training.report.baselines import baselines_section
from pipeline.training.report.data import dataset_section
from pipeline.training.report.findings import findings_section
from pipeline.training.report.inputs import ReportInputs, read_inputs
from pipeline.training.report.provenance import origin, provenance_section, title
from pipeline.training.report.results import headline, results_section
from pipeline.training.report.run import time_section, training_section
from pipeline.training.report.worst import worst_section
from pipeline.training.state import run_record
from pipeline.training.state import workdir as workdir_lib
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir

_REPORT_EVERY_S = 10.0  # the page of a run under way: to write it takes 0.1 s


class Reporter:
    """Reports a run; only the chief of a cluster has a reporter.

    Args:
      record: record of this run; its steps and seconds are kept up to date in run.json.
      before: what run.json held before, if the run is continued.
      step: the step from which training starts.
      logged: the last log point before it.
    """

    def __init__(
        self,
        workdir: Workdir,
        record: RunRecord,
        *,
        before: RunRecord | None,
        step: int,
        logged: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workdir = workdir
        self._clock = clock
        self._start = clock() - (before.seconds if before else 0.0)
        self._next_report = clock()
        started = before.started if before else ""
        started = started or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        lengthened = before.lengthened if before else ()
        if before and before.total_steps != record.total_steps:
            lengthened = (*lengthened, {"step": step, "total_steps": before.total_steps})
        workdir_lib.keep_history_up_to(workdir.history, step if logged is None else logged)
        self._record = dataclasses.replace(record, started=started, finished=False, lengthened=lengthened)
        self._write_record(step)
        self._summaries = Summaries(workdir.summaries)
        self._progress = Progress(total_steps=record.total_steps, step=step)

    def __call__(self, point: Mapping) -> None:
        workdir_lib.append_history(self._workdir.history, point)
        self._summaries.write(point)
        self._progress.show(point)
        if "validation" in point:
            self._write_record(point["step"])
            self._report_at_times()

    def _report_at_times(self) -> None:
        if self._clock() >= self._next_report:
            write_report(self._workdir.path)
            self._next_report = self._clock() + _REPORT_EVERY_S

    @property
    def record(self) -> RunRecord:
        """What run.json holds now."""
        return self._record

    def first_step(self, tracing_s: float, step_s: float) -> None:
        """Receives how long it took to trace the graph, and to run the first step of this process."""
        self._progress.first_step(tracing_s, step_s)

    def tell(self, line: str) -> None:
        self._progress.tell(line)

    def bad_step(self, event: Mapping, line: str) -> None:
        """Receives what was done about a step whose loss was not finite, and a line about it."""
        self._progress.tell(line)
        self._record = dataclasses.replace(self._record, bad_steps=(*self._record.bad_steps, event))
        self._write_record(self._record.steps)

    def finish(self, step: int, evaluation: Mapping) -> None:
        """Receives the final metrics. After this the run counts as finished."""
        self._progress.close()
        self._summaries.close()
        files_lib.write_json(self._workdir.evaluation, evaluation)
        files = run_record.digests(self._workdir.path, self._workdir.evaluation.name)
        self._record = dataclasses.replace(self._record, finished=True, files=files)
        self._write_record(step)
        write_report(self._workdir.path)

    def _write_record(self, step: int) -> None:
        seconds = round(self._clock() - self._start, 3)
        self._record = dataclasses.replace(self._record, steps=step, seconds=seconds)
        run_record.write(self._workdir.run, self._record)


# tqdm's own speed is left out, so that the loss has room in 80 columns.
_BAR = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"


class Progress:
    """Shows log points as they come: as a bar on a terminal, as lines where output goes to a file."""

    def __init__(
        self,
        *,
        total_steps: int,
        step: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._done, self._since = step, clock()  # start of the measurement for the time left
        self._stream = stream or sys.stdout
        self._total = total_steps
        watched = stream or sys.stderr  # only this one of the two accepts the characters that draw a bar
        is_watched = self._stream.isatty() and watched.isatty()
        self._bar = tqdm(
            total=total_steps, initial=step, file=watched, disable=not is_watched, bar_format=_BAR
        )

    def first_step(self, tracing_s: float, step_s: float) -> None:
        """Says that training has begun: compiling may take minutes."""
        self._done, self._since = self._done + 1, self._clock()
        self.tell(f"first step done; tracing took {tracing_s:.1f} s, compiling and running it {step_s:.1f} s")

    def tell(self, line: str) -> None:
        """Shows a line, above the bar where there is one."""
        self._bar.write(terminal.broken(line), file=self._stream)
        self._stream.flush()

    def show(self, point: Mapping) -> None:
        if self._bar.disable:
            line = f"{describe(point, self._total)}{self._left(point['step'])}"
            print(line, file=self._stream, flush=True)
            return
        self._bar.set_postfix_str(", ".join(_speed_and_loss(point)), refresh=False)
        self._bar.n = point["step"]
        self._bar.refresh()
        if "validation" in point:
            self._bar.write(terminal.broken(describe(point, self._total)), file=self._stream)

    def _left(self, step: int) -> str:
        """The time left after `step`, at the speed so far, evaluations included; the bar has its own
        estimate.
        """
        if not self._done < step < self._total:
            return ""
        seconds = (self._clock() - self._since) / (step - self._done) * (self._total - step)
        return f"  left {datetime.timedelta(seconds=round(seconds))}"

    def close(self) -> None:
        self._bar.close()


def describe(point: Mapping, total_steps: int) -> str:
    """One line with step, epoch, loss, accuracy, speed, time spent waiting for input, and validation
    metrics.
    """
    head = [f"step {point['step']:,}/{total_steps:,}", f"epoch {point['epoch']:.2f}"]
    validation = [summary(point["validation"])] if "validation" in point else []
    return "  ".join([*head, *_speed_and_loss(point), *validation])


def summary(metrics: Mapping) -> str:
    """The numbers of an evaluation in one line, after the name of its split."""
    numbers = [f"{name} {number(value)}" for name, value in metrics.items() if isinstance(value, float)]
    return f"{metrics['split']}: {' '.join(numbers)}"


def number(value: float) -> str:
    """Formats with four decimals; small numbers with four digits, numbers from a thousand on with six:
    0.0009432 0.1234 1.68355e+11.
    """
    if value and abs(value) < 0.1:
        return f"{value:.4g}"
    return f"{value:.4f}" if abs(value) < 1_000 else f"{value:.6g}"


def _speed_and_loss(point: Mapping) -> list[str]:
    return [
        *(f"{name} {number(point[name])}" for name in ("loss", "accuracy") if name in point),
        f"{point['examples_per_s']:,.0f} examples/s",
        f"{point['step_ms']:.1f} ms/step",
        f"input wait {point['input_wait']:.1%}",
    ]


class Summaries:
    """Writes log points for TensorBoard (`--logdir=<workdir>/summaries`), as two runs of one chart."""

    def __init__(self, directory: pathlib.Path) -> None:
        try:
            self._training = tf.summary.create_file_writer(str(directory / "train"))
            self._evaluation = tf.summary.create_file_writer(str(directory / "evaluation"))
        except tf.errors.OpError as error:
            raise InputError(
                f"summaries {directory}",
                received=error.message,
                expected="a directory that can be written to",
                action="Remove what is there; the same command goes on from the last checkpoint.",
            ) from None

    def write(self, point: Mapping) -> None:
        _write(self._training, point, point["step"])
        _write(self._evaluation, point.get("validation", {}), point["step"])

    def close(self) -> None:
        self._training.close()
        self._evaluation.close()


def _write(writer: tf.summary.SummaryWriter, numbers: Mapping, step: int) -> None:
    # TensorFlow refuses a Python float beyond float32; squared errors can be that large.
    with writer.as_default(step=step), np.errstate(over="ignore"):
        for name, value in numbers.items():
            if isinstance(value, float):
                tf.summary.scalar(name, np.float32(value))
    writer.flush()


# --- The report: one HTML page that needs no other file.


FILE_NAME = "report.html"


def write_report(workdir: str | os.PathLike) -> pathlib.Path:
    """Writes `workdir/report.html` from what `workdir` and its dataset hold now; returns its path.

    It may be called while training runs: missing parts are left out, and a reader never sees half a page.
    """
    path = pathlib.Path(workdir) / FILE_NAME
    files_lib.write_bytes(path, render_report(read_inputs(path.parent)).encode())
    return path


def render_report(inputs: ReportInputs) -> Markup:
    head = Section(title=title(inputs), parts=[headline(inputs), Cell(text=origin(inputs), style="origin")])
    sections = [
        findings_section(inputs),
        results_section(inputs),
        worst_section(inputs.worst),
        baselines_section(inputs.baselines),
        training_section(inputs),
        time_section(inputs),
        dataset_section(inputs),
        provenance_section(inputs),
    ]
    return html.page(head, sections)
