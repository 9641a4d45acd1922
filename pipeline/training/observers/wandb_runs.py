"""A run in Weights & Biases: config, metrics, final metrics and the report. Offline mode needs no account."""

import pathlib
import shutil
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.training.observers.observer import (
    Observer,
    Place,
    Point,
    final_metrics,
    library,
    metrics_of,
    name_of,
)
from pipeline.training.state.run_record import RunRecord


class Wandb(Observer):
    """Continues the same run after a kill.

    Args:
      project: name of the project.
      mode: online, which needs WANDB_API_KEY in the environment; or offline, which writes to the working
        directory, from where `wandb sync` can send it; empty: the value of WANDB_MODE.
      entity: owner of the project; empty: the account itself.
    """

    def __init__(self, *, project: str = "penstock", mode: str = "", entity: str = "") -> None:
        self._project, self._mode, self._entity = project, mode, entity
        self._run: Any = None  # wandb.Run, once the run has started
        self._last = -1  # the step of the last log point that was sent

    def started(self, record: RunRecord, place: Place, history: Sequence[Point]) -> None:
        wandb = library("wandb")
        kept = place.recall()
        run_id = kept.get("run_id") or uuid.uuid4().hex[:16]
        self._run = wandb.init(
            project=self._project,
            entity=self._entity or None,
            mode=self._mode or None,
            dir=str(place.workdir),
            id=run_id,
            resume="allow",
            name=name_of(record, place),
            config={**record.config, "dataset_digests": dict(record.datasets)},
            settings=wandb.Settings(console="off", disable_code=True, disable_git=True, silent=True),
        )
        place.remember(run_id=run_id)
        self._last = max(self._last, self._run.step - 1 if self._run.resumed else -1)
        for point in history if kept else ():  # log points that were not sent because of a kill
            self.logged(point)

    def logged(self, point: Point) -> None:
        step = int(point["step"])
        if step > self._last:
            self._run.log(metrics_of(point), step=step)
            self._last = step

    def finished(self, steps: int, evaluation: Mapping[str, object], report: pathlib.Path) -> None:
        self._run.summary.update(final_metrics(evaluation))
        shutil.copy(report, self._run.dir)  # files in this folder are sent with the run
        self._run.finish(exit_code=0)

    def failed(self, error: str, *, was_asked: bool) -> None:
        self._run.summary["ended"] = error
        self._run.finish(exit_code=1)
