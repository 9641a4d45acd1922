"""Tells the world how a run goes: terminal, history.jsonl, TensorBoard, run.json and the report."""

import datetime
import time
from collections.abc import Callable, Mapping

from pipeline.data import whole_files
from pipeline.training import workdir as files
from pipeline.training.progress import Progress
from pipeline.training.report import write_report
from pipeline.training.summaries import Summaries
from pipeline.training.workdir import Workdir


class Reporter:
    """Only the chief of a cluster has one.

    Args:
      record: what run.json says of this run; steps and seconds are kept up to date.
      before: what run.json said before, if the run is continued.
      step: the step that training starts from.
    """

    def __init__(
        self,
        workdir: Workdir,
        record: Mapping,
        *,
        before: Mapping | None,
        step: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        before = before or {}
        self._workdir = workdir
        self._clock = clock
        self._start = clock() - before.get("seconds", 0.0)
        started = before.get("started") or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._record = {**record, "started": started, "finished": False}
        self._write_record(step)
        files.keep_lines_up_to(workdir.history, step)
        self._summaries = Summaries(workdir.summaries)
        self._progress = Progress(total_steps=record["total_steps"], step=step)

    def __call__(self, point: Mapping) -> None:
        """Receives a log point."""
        files.append_line(self._workdir.history, point)
        self._summaries.write(point)
        self._progress.show(point)
        if "validation" in point:
            self._write_record(point["step"])
            write_report(self._workdir.path)

    def finish(self, step: int, evaluation: Mapping) -> None:
        """Receives the final metrics. After this the run counts as finished."""
        self._progress.close()
        self._summaries.close()
        whole_files.write_json(self._workdir.evaluation, evaluation)
        self._record["finished"] = True
        self._write_record(step)
        write_report(self._workdir.path)

    def _write_record(self, step: int) -> None:
        self._record |= {"steps": step, "seconds": round(self._clock() - self._start, 3)}
        whole_files.write_json(self._workdir.run, self._record)
