"""Tells how a run goes: terminal, history.jsonl, TensorBoard, run.json and the report."""

import dataclasses
import datetime
import time
from collections.abc import Callable, Mapping

from pipeline.data import atomic_files
from pipeline.training.report.page import write_report
from pipeline.training.report.progress import Progress
from pipeline.training.report.summaries import Summaries
from pipeline.training.state import history, run_record
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir


class Reporter:
    """Only the chief of a cluster has one.

    Args:
      record: of this run; its steps and seconds are kept up to date in run.json.
      before: what run.json held before, if the run is continued.
      step: the step that training starts from.
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
        started = before.started if before else ""
        started = started or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        lengthened = before.lengthened if before else ()
        if before and before.total_steps != record.total_steps:
            lengthened = (*lengthened, {"step": step, "total_steps": before.total_steps})
        history.keep_up_to(workdir.history, step if logged is None else logged)
        self._record = dataclasses.replace(record, started=started, finished=False, lengthened=lengthened)
        self._write_record(step)
        self._summaries = Summaries(workdir.summaries)
        self._progress = Progress(total_steps=record.total_steps, step=step)

    def __call__(self, point: Mapping) -> None:
        """Receives a log point."""
        history.append(self._workdir.history, point)
        self._summaries.write(point)
        self._progress.show(point)
        if "validation" in point:
            self._write_record(point["step"])
            write_report(self._workdir.path)

    def first_step(self, tracing_s: float, step_s: float) -> None:
        """Receives how long it took to trace the graph, and to run the first step of this process."""
        self._progress.first_step(tracing_s, step_s)

    def tell(self, line: str) -> None:
        """Shows a line beside the progress."""
        self._progress.tell(line)

    def bad_step(self, event: Mapping, line: str) -> None:
        """Receives what was done about a step whose loss was not finite, and a line on it."""
        self._progress.tell(line)
        self._record = dataclasses.replace(self._record, bad_steps=(*self._record.bad_steps, event))
        self._write_record(self._record.steps)

    def finish(self, step: int, evaluation: Mapping) -> None:
        """Receives the final metrics. After this the run counts as finished."""
        self._progress.close()
        self._summaries.close()
        atomic_files.write_json(self._workdir.evaluation, evaluation)
        files = run_record.digests(self._workdir.path, self._workdir.evaluation.name)
        self._record = dataclasses.replace(self._record, finished=True, files=files)
        self._write_record(step)
        write_report(self._workdir.path)

    def _write_record(self, step: int) -> None:
        seconds = round(self._clock() - self._start, 3)
        self._record = dataclasses.replace(self._record, steps=step, seconds=seconds)
        run_record.write(self._workdir.run, self._record)
