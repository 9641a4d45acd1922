"""Clocks of the loop: kinds of wall time, step times, sums over steps, and when things are due."""

import dataclasses
import fractions
import math
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, Protocol, TypeVar

import numpy as np

from pipeline.training.state.goodput import GoodputLog, Kind

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def timed(
    times: GoodputLog, kind: Kind, function: Callable[_Arguments, _Result]
) -> Callable[_Arguments, _Result]:
    """Wraps a function so that the time of its calls counts as `kind`."""

    def call(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        with times.during(kind):
            return function(*arguments, **named)

    return call


# --- Times of single steps: quantiles since the last log point, and over the whole process.


_QUANTILES = {"step_p50_ms": 0.5, "step_p95_ms": 0.95, "step_max_ms": 1.0}
# Over the whole process only a histogram is kept: bins 1% wide, from a microsecond to a day.
_SHORTEST_S, _LONGEST_S, _WIDTH = 1e-6, 86_400.0, 1.01
_BINS = int(np.log(_LONGEST_S / _SHORTEST_S) / np.log(_WIDTH)) + 1


class StepTimes:
    """Collects the seconds of steps, each with its wait for input. The first step is left out, because it
    compiles.
    """

    def __init__(self) -> None:
        self._recent: list[np.ndarray] = []
        self._counts = np.zeros(_BINS, np.int64)
        self._longest = 0.0
        self._is_first = True

    def add(self, seconds: np.ndarray) -> None:
        """Adds the seconds of steps, float64 [steps]."""
        seconds = seconds[1:] if self._is_first else seconds
        self._is_first = False
        if not len(seconds):
            return
        self._recent.append(seconds)
        bins = np.log(np.clip(seconds, _SHORTEST_S, _LONGEST_S) / _SHORTEST_S) / np.log(_WIDTH)
        np.add.at(self._counts, bins.astype(np.int64).clip(0, _BINS - 1), 1)
        self._longest = max(self._longest, float(seconds.max()))

    def take(self) -> dict[str, float]:
        """Milliseconds of the median, of the 95th percentile and of the longest step since the last call."""
        seconds, self._recent = self._recent, []
        if not seconds:
            return {}
        values = np.quantile(np.concatenate(seconds), list(_QUANTILES.values()), method="inverted_cdf")
        return {name: 1e3 * float(value) for name, value in zip(_QUANTILES, values, strict=True)}

    def of_all(self) -> dict[str, float]:
        """The same quantiles of all steps, to one percent; empty where there were none."""
        total = int(self._counts.sum())
        if not total:
            return {}
        ranks = np.searchsorted(np.cumsum(self._counts), [share * total for share in _QUANTILES.values()])
        middles = np.minimum(_SHORTEST_S * _WIDTH ** (ranks + 0.5), self._longest)
        middles[-1] = self._longest
        return {name: 1e3 * float(value) for name, value in zip(_QUANTILES, middles, strict=True)}


# --- Sums over training steps: time, loss, right answers.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tally:
    """Sums over steps and replicas. Tallies of consecutive steps can be added.

    `bad` holds the numbers of steps whose loss was not finite, counted from 0 at the start of the process.
    """

    steps: int = 0
    seconds: float = 0.0
    input_wait_s: float = 0.0
    loss: float = 0.0  # sum over the examples
    hits: float = 0.0  # examples whose answer was right
    skipped: int = 0  # bad steps, whose loss and hits are not in the sums
    bad: tuple[int, ...] = ()

    def __add__(self, other: "Tally") -> "Tally":
        sums = {name: value + getattr(other, name) for name, value in vars(self).items()}
        return Tally(**sums)

    @property
    def counted(self) -> int:
        """Steps whose loss and hits are in the sums."""
        return self.steps - self.skipped

    def averages(self, *, global_batch: int, has_accuracy: bool) -> dict[str, float]:
        """Mean loss and, where the task has it, accuracy of an example."""
        examples = max(1, self.counted * global_batch)
        accuracy = {"accuracy": self.hits / examples} if has_accuracy else {}
        return {"loss": self.loss / examples, **accuracy}

    def speed(self, *, global_batch: int) -> dict[str, float]:
        """Examples a second, milliseconds a step, and the fraction of the time spent waiting for input."""
        seconds = max(self.seconds, 1e-9)
        return {
            "examples_per_s": self.steps * global_batch / seconds,
            "step_ms": 1e3 * seconds / max(1, self.steps),
            "input_wait": min(1.0, self.input_wait_s / seconds),
        }


# --- Cadence: when things are due, counted in steps.
#
# Every stop is a pure function of the absolute step. So a resumed run stops exactly where the undisturbed
# one does, and adds up the same numbers in the same order.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cadence:
    """Epochs, log points and checkpoints of a run of `total_steps` steps over `records` examples."""

    records: int  # examples in an epoch
    global_batch: int
    total_steps: int
    steps_per_loop: int
    log_every_steps: int
    checkpoint_every_steps: int

    def position(self, step: int) -> int:
        """Examples consumed before `step`."""
        return step * self.global_batch

    def epochs(self, step: int) -> float:
        """Epochs done after `step` steps."""
        return self.position(step) / self.records

    def epoch(self, step: int) -> int:
        """The epoch, from 0, of the step that runs after `step` steps."""
        return self.position(step) // self.records

    @property
    def steps_of_epoch(self) -> int:
        """Steps of the first epoch; later epochs may have one less."""
        return self._next_epoch_end(0)

    def step_in_epoch(self, step: int) -> int:
        """The number within its epoch, from 0, of the step that runs after `step` steps."""
        return step - math.ceil(self.epoch(step) * self.records / self.global_batch)

    def next_stop(self, step: int) -> int:
        """The first step after `step` at which the host takes over from the inner loop."""
        every = (self.steps_per_loop, self.log_every_steps, self.checkpoint_every_steps)
        regular = (step - step % steps + steps for steps in every)
        return min(*regular, self._next_epoch_end(step), self.total_steps)

    def ends_epoch(self, step: int) -> bool:
        """Returns whether `step` takes an epoch's last example, or is the run's last step."""
        return step == self.total_steps or step == self._next_epoch_end(step - 1)

    def saves(self, step: int) -> bool:
        """Returns whether a checkpoint is due after `step`."""
        return self.ends_epoch(step) or step % self.checkpoint_every_steps == 0

    def logs(self, step: int) -> bool:
        """Returns whether a log point is due after `step`."""
        # A step that is saved is logged too; otherwise the sums of an open window would be lost with the
        # process.
        return self.saves(step) or step % self.log_every_steps == 0

    def _next_epoch_end(self, step: int) -> int:
        # Batches run across epoch boundaries, so an epoch ends in the step that takes its last example.
        done = self.position(step) // self.records
        return math.ceil((done + 1) * self.records / self.global_batch)


def total_steps(*, epochs: float, records: int, global_batch: int) -> int:
    """The steps that it takes to see every example `epochs` times."""
    # The numbers are exact decimals: in floating point, 1.1 × 50,000 is more than 55,000, and would take one
    # more step.
    return math.ceil(fractions.Fraction(str(epochs)) * records / global_batch)


# --- The keeper of the loop's state.


class Checkpoints(Protocol):
    """Keeps the state of a run at a step; `session` is the session's own part of it, and may hold arrays."""

    newest: int  # step of the newest checkpoint that is whole; 0: there is none
    blocked_s: Sequence[float]  # seconds that each save kept training waiting

    def save(self, step: int, session: Mapping, *, metrics: Mapping[str, float]) -> None: ...

    def finish(self) -> None:
        """Waits until what was saved is on the disk."""

    def restore(self) -> tuple[int, Mapping]:
        """Restores the latest state; returns its step and session, (0, {}) if there is none."""
