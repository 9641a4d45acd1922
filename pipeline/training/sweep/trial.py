"""One run of a sweep: a process of its own, which writes to a log beside the run's working directory."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence

from ml_collections import ConfigDict

from pipeline.data.dataset.window import open_window
from pipeline.data.errors import InputError
from pipeline.training.state import history, run_record
from pipeline.training.state import workdir as files
from pipeline.training.state.workdir import Workdir
from pipeline.training.sweep.grid import Point
from pipeline.training.workers import child


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """A run of a sweep, done or not.

    Attributes:
      workdir: the run's working directory.
      config: as this run has it.
      warm_start: working directory of the run whose weights it begins with; None: it begins from scratch.
    """

    point: Point
    workdir: Workdir
    config: ConfigDict
    warm_start: pathlib.Path | None = None

    @property
    def log(self) -> pathlib.Path:
        return self.workdir.path.with_name(f"{self.workdir.path.name}.log")

    def is_finished(self, *, dataset_digest: str) -> bool:
        """Whether the run is there already, to its end, with this config and its datasets."""
        record = run_record.read(self.workdir.run)
        return bool(
            record
            and record.finished
            and record.dataset_digest == dataset_digest
            and self._has_mixture(record.mixture_digests)
            and record.warm_start.get("workdir", "") == str(self.warm_start or "")
            and record.config == json.loads(json.dumps(self.config.to_dict(), default=repr))
            and self.workdir.evaluation.exists()
        )

    def _has_mixture(self, digests: Sequence[str]) -> bool:
        """Whether the mixture is of those; where a dataset cannot be opened, the run itself says so."""
        with contextlib.suppress(InputError):
            opened = (open_window([directory]) for directory, *_ in self.config.mixture)
            return [each.manifest.digest for each in opened] == list(digests)
        return False

    def train(self, command: Sequence[str], *, came: Callable[[], int]) -> int:
        """Trains to the end, or goes on with what is there; returns the exit code, 0 where all is well.

        A signal to this process is passed on, and the run saves before it ends. Where this process is killed,
        the run is, too: the next command goes on with its last checkpoint.

        Args:
          command: that of the sweep, as behind `python -m`.
          came: function () → number of the signal that this process was sent, or 0.
        """
        own = ("--sweep=", "--json=", f"--workdir={self.workdir.path}", *self.point.flags)
        return child.run((*command, *own), log=self.log, came=came)

    def why_failed(self, code: int) -> str:
        """The line with which the run ended, or its exit code."""
        return child.why_failed(code, log=self.log)

    def numbers(self) -> dict[str, float]:
        """Last metrics of the validation, as `val_NAME`, and the final ones, as `SPLIT_NAME`."""
        points = [
            point["validation"] for point in history.read(self.workdir.history) if "validation" in point
        ]
        final = files.read_json(self.workdir.evaluation) or {}
        named = _named("val", points[-1]) if points else {}
        return named | _named(str(final.get("split", "")).replace("/", "_"), final)

    def seconds(self) -> float:
        """Wall time of training, over all processes of the run."""
        return run_record.read(self.workdir.run).seconds


def _named(prefix: str, metrics: Mapping) -> dict[str, float]:
    return {f"{prefix}_{name}": value for name, value in metrics.items() if isinstance(value, float)}
