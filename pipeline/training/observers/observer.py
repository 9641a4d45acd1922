"""The interface of observers, which follow a run from outside; a user's own observer derives from
`Observer`.
"""

import dataclasses
import importlib
import json
import pathlib
import types
from collections.abc import Mapping, Sequence

from pipeline.base import files
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import numbers

Point = Mapping[str, object]  # a line of history.jsonl


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """The places that an observer may know besides the run's record.

    Attributes:
      workdir: the run's working directory.
      memory: a file in `workdir` for what the observer must know again after a kill, such as its run's id.
    """

    workdir: pathlib.Path
    memory: pathlib.Path

    def recall(self) -> dict:
        """Returns what `remember` has kept; empty if there is nothing, or it is not JSON."""
        try:
            found = json.loads(files.read_bytes(self.memory))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def remember(self, **facts: object) -> None:
        self.memory.parent.mkdir(exist_ok=True)
        files.write_json(self.memory, facts)


class Observer:
    """Does nothing at each event; only the chief of a cluster has observers.

    An exception in a method does not end the run. The event is given again later, before those that follow.
    So a method that fails half-way is called twice.
    """

    def started(self, record: RunRecord, place: Place, history: Sequence[Point]) -> None:
        """Receives the run when it begins or continues; `history` holds the log points until then."""

    def logged(self, point: Point) -> None:
        """Receives a log point: `step`, `loss`, speed, and `validation` if an epoch ends there."""

    def finished(self, steps: int, evaluation: Mapping[str, object], report: pathlib.Path) -> None:
        """Receives the final metrics and the report, at the end of the run."""

    def failed(self, error: str, *, was_asked: bool) -> None:
        """Receives the reason why this process ends before its run.

        Args:
          error: one line, without secrets.
          was_asked: whether a signal asked the run to stop, so that it can continue later.
        """


def library(name: str) -> types.ModuleType:
    """Imports an optional package, which may take seconds; registry.py has made sure that it is installed."""
    return importlib.import_module(name)


def name_of(record: RunRecord, place: Place) -> str:
    """Names a run as people do: config and working directory, `digits_resnet, runs/digits`."""
    config = pathlib.PurePath(record.config_file.partition(":")[0]).stem
    return f"{config}, {place.workdir.name}" if config else place.workdir.name


def metrics_of(point: Point) -> dict[str, float]:
    """The numbers of a log point by name; names of validation metrics begin with `val_`."""
    return numbers(point) | numbers(point.get("validation") or {}, prefix="val_")


def final_metrics(evaluation: Mapping) -> dict[str, float]:
    """The final metrics by name, with the split in front: `test_auc`."""
    split = str(evaluation.get("split", "final")).replace("/", "_")
    return numbers(evaluation, prefix=f"{split}_")
