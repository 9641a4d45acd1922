"""Records what the devices and the host do during some steps, for xprof or TensorBoard's profiler."""

import contextlib
import dataclasses
import pathlib
import shutil
import weakref
from collections.abc import Callable

import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.training.loop.clock import Tally
from pipeline.training.loop.outer import InnerLoop
from pipeline.training.state.goodput import GoodputLog

_MOST_STEPS = 1_000  # steps, at most: a step takes 100 KB of trace or more


@dataclasses.dataclass(frozen=True, kw_only=True)
class Steps:
    """The steps [first, end), counted from 0."""

    first: int
    end: int


def parsed(text: str) -> Steps | None:
    """The steps of `FIRST:END`; None for an empty text. Raises InputError for any other text."""
    if not text:
        return None
    first, _, end = text.partition(":")
    if first.isdecimal() and end.isdecimal() and 0 < int(end) - int(first) <= _MOST_STEPS:
        return Steps(first=int(first), end=int(end))
    raise InputError(
        "--profile_steps",
        received=text,
        expected=f"FIRST:END, steps counted from 0, END after FIRST by {_MOST_STEPS:,} at most",
        action="For instance --profile_steps=100:110, which are ten steps.",
    )


class Traced:
    """An inner loop that runs `steps` one by one, and records them.

    The trace appears whole in `folder` when the last of them is done. A run that ends earlier leaves no
    trace, and the remains of a killed run are removed.

    Args:
      begun: the step from which the process continues.
      tell: receives a line when the trace is there, or when there can be none.
    """

    def __init__(
        self,
        loop: InnerLoop,
        steps: Steps,
        *,
        begun: int,
        folder: pathlib.Path,
        times: GoodputLog,
        tell: Callable[[str], None],
    ) -> None:
        self._loop, self._steps, self._step = loop, steps, begun
        self._folder, self._times, self._tell = folder, times, tell
        self._staging = folder.with_name(f".{folder.name}.staging")
        shutil.rmtree(self._staging, ignore_errors=True)
        # This stops the trace if a process ends, other than by a kill, while steps are left to record.
        weakref.finalize(self, _abandoned, self._staging)
        if begun > steps.first:
            tell(f"no trace: this process begins at step {begun:,}, after step {steps.first:,}")

    def __call__(self, count: int) -> Tally:
        tally, end = Tally(), self._step + count
        while self._step < end:
            tally += self._next(end)
        return tally

    def _next(self, end: int) -> Tally:
        """Runs until `end`, or until recording begins or ends."""
        first, last = self._steps.first, self._steps.end
        if self._step == first:
            self._start()
        if first <= self._step < last and self._is_recording():
            with tf.profiler.experimental.Trace("train", step_num=self._step, _r=1):
                tally = self._run(1)
            if self._step == last:
                self._stop()
            return tally
        return self._run((min(end, first) if self._step < first else end) - self._step)

    def _run(self, count: int) -> Tally:
        tally = self._loop(count)
        self._step += count
        return tally

    def _is_recording(self) -> bool:
        return self._staging.exists()

    def _start(self) -> None:
        with self._times.during("report"):
            shutil.rmtree(self._staging, ignore_errors=True)
            self._staging.mkdir(parents=True)
            tf.profiler.experimental.start(str(self._staging))

    def _stop(self) -> None:
        with self._times.during("report"):
            tf.profiler.experimental.stop()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._staging.rename(self._folder)
        self._tell(f"trace      steps {self._steps.first:,} to {self._steps.end - 1:,}: {self._folder}")


def _abandoned(staging: pathlib.Path) -> None:
    if staging.exists():
        with contextlib.suppress(tf.errors.UnavailableError):  # nothing is being recorded
            tf.profiler.experimental.stop(save=False)
        shutil.rmtree(staging, ignore_errors=True)
