"""Replays steps of a run from its working directory: batches, records, losses, steps whose loss jumped.

Start here; stream.py, evaluator.py and step.py hold what this puts together.
"""

import math
import pathlib
from collections.abc import Mapping, Sequence

from pipeline.base.errors import InputError
from pipeline.training.replay.evaluator import StepEvaluators
from pipeline.training.replay.step import (
    MOST_WINDOWS,
    ReplayedStep,
    Spikes,
    beginnings,
    replayed_step,
    spike_of,
    windows_that_jumped,
)
from pipeline.training.replay.stream import open_stream
from pipeline.training.state import run_record
from pipeline.training.state import workdir as workdir_lib


class Replay:
    """A run whose steps can be replayed; what was loaded for one step is used again for the next.

    Args:
      moved_to: present places of datasets of the run that were moved.
      checkpoint: the step of the checkpoint that evaluates the examples, 0 for the initial weights; None:
        the nearest to each step.

    Raises:
      InputError: there is no run or no such dataset, the dataset is another one, or the run's order of rows
        has another version.
    """

    def __init__(
        self,
        workdir: pathlib.Path,
        *,
        moved_to: Sequence[str | pathlib.Path] = (),
        checkpoint: int | None = None,
    ) -> None:
        self.workdir = workdir_lib.existing(workdir)
        self.record = run_record.read(self.workdir.run)
        self.stream = open_stream(self.workdir, self.record, moved_to=moved_to)
        self._evaluators = StepEvaluators(self.workdir, checkpoint=checkpoint)

    @property
    def steps(self) -> int:
        """The number of steps that the run has, or will have when it is finished."""
        return self.record.steps if self.record.finished else self.record.total_steps

    def step(self, step: int, *, examples: int) -> ReplayedStep:
        """The step, counted from 0, and its worst examples.

        Raises:
          InputError: the run has no such step; a record is damaged; or no checkpoint can be read.
        """
        self._require(step)
        weights, evaluator = self._evaluators.at(step)
        return replayed_step(self.stream, step, evaluator=evaluator, weights=weights, examples=examples)

    def spikes(self, *, examples: int) -> Spikes:
        """The log points and the steps whose loss jumped, with the worst examples of each such step."""
        points = workdir_lib.read_history(self.workdir.history)
        windows = windows_that_jumped(points, stopped_before=self._stopped_before(points))
        since = beginnings(points)
        looked_into = [
            spike_of(
                self.stream,
                window,
                since=since[window.first],
                weights_at=self._evaluators.at,
                examples=examples,
            )
            for window in windows[:MOST_WINDOWS]
        ]
        # A window that was not logged is reported only if the data explain its jump.
        found = tuple(spike for spike in looked_into if spike.steps or math.isfinite(spike.window.loss))
        return Spikes(points=len(points), found=found, left_out=len(windows) - len(looked_into))

    def _stopped_before(self, points: Sequence[Mapping]) -> int | None:
        """The step that would have been logged next, if the run ended without being finished."""
        if self.record.finished:
            return None
        logged = points[-1]["step"] if points else 0
        every = self.record.config["train"]["log_every_steps"]
        return min(logged - logged % every + every, self.steps)

    def _require(self, step: int) -> None:
        if not 0 <= step < self.steps:
            raise InputError(
                f"--step={step}",
                received=f"no step of the run in {self.workdir.path}",
                expected=f"0 to {self.steps - 1:,}: step N is the batch that follows N steps",
                action="Choose one of these.",
            )
