"""Handles steps whose loss or gradient is infinite or not a number.

    stop       ends the run, and names the records.
    skip       changes nothing in that step. It needs a check of every gradient.
    roll_back  takes the weights of the newest checkpoint and goes on with the next batch: those of the steps
               since that checkpoint are passed over, as Chowdhery et al. 2022 (PaLM, section 5.1) do.

Skipping and rolling back depend only on data and state, and what was done is saved in the next checkpoint. So
a run that is killed ends like a run that is not.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pipeline.base.errors import InputError
from pipeline.training.loop.clock import Checkpoints, Tally

# --- Errors and events.


TRAIN_OTHERWISE = (
    "Train in an empty --workdir with a lower --config.optimizer.learning_rate, or with --precision=float32."
)


class NotFiniteError(InputError):
    """Raised where a number of the run is infinite or not a number."""


def not_finite(thing: str, received: object, *, newest: int) -> NotFiniteError:
    """The error that ends the run.

    Args:
      thing: what is not finite, and after which step.
      newest: step of the newest checkpoint, which was saved earlier; 0: there is none.
    """
    return NotFiniteError(
        thing,
        received=received,
        expected="finite numbers",
        action=f"{saved_batch(newest)} {TRAIN_OTHERWISE}",
    )


def saved_batch(newest: int) -> str:
    """Names the newest checkpoint, of step `newest`; 0: there is none."""
    return (
        f"The newest checkpoint, of step {newest:,}, is from before." if newest else "Nothing is saved yet."
    )


Policy = Literal["stop", "skip", "roll_back"]
POLICIES: Sequence[Policy] = ("stop", "skip", "roll_back")

Event = Mapping[str, int | str]  # what was done about a bad step, for run.json


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attribution:
    """The records of a bad step that are at fault."""

    text: str
    is_certain: bool  # whether their loss is not finite although the weights are


@dataclasses.dataclass(frozen=True, kw_only=True)
class Guard:
    """A run's policy, and the functions that name records and report events.

    Args:
      allowed: number of bad steps, or of times to roll back; one more ends the run.
      attribution: function of (a step, whether its weights are spoiled, so that the initial ones are used
        instead).
      tell: receives what was done, and a line about it.
      workdir: working directory of the run, for commands in the advice.
    """

    policy: Policy = "stop"
    allowed: int = 10
    workdir: str = "WORKDIR"
    attribution: Callable[[int, bool], Attribution] = lambda step, is_spoiled: Attribution(
        text="", is_certain=False
    )
    tell: Callable[[Event, str], None] = lambda event, line: None


def skipped(step: int, attribution: Attribution) -> tuple[Event, str]:
    """Returns the event and the line of a step that was skipped."""
    return {"step": step, "did": "skipped"}, f"skipped    {_named(step, attribution)}"


def rolled_back(step: int, *, to: int, until: int, attribution: Attribution) -> tuple[Event, str]:
    """Returns the event and the line of a run that took the weights of checkpoint `to`, and continues at step
    `until`.
    """
    event = {"step": step, "did": "rolled back", "to": to, "until": until}
    line = f"rolled back to the weights of step {to:,}, and on with the batch of step {until:,}"
    return event, f"{line}: {_named(step, attribution)}"


def stopped(step: int, attribution: Attribution, *, newest: int, workdir: str) -> NotFiniteError:
    look = f"Look at the batch: python -m pipeline.replay --step={step} --workdir={workdir}"
    advice = (
        f"{look}; correct the data, or go on in this --workdir with --config.train.on_bad_step=skip."
        if attribution.is_certain
        else f"{look}. {TRAIN_OTHERWISE}"
    )
    return NotFiniteError(
        f"step {step:,}",
        received=_named_only(attribution),
        expected="finite numbers",
        action=f"{saved_batch(newest)} {advice}",
    )


def too_many(events: Sequence[Event], *, allowed: int, newest: int) -> NotFiniteError:
    """The error that ends a run with more bad steps than allowed."""
    steps = ", ".join(f"{event['step']:,}" for event in events)
    return NotFiniteError(
        f"steps {steps}",
        received="losses or gradients that are not finite",
        expected=f"at most {allowed} such steps: --config.train.bad_steps_allowed",
        action=f"{saved_batch(newest)} {TRAIN_OTHERWISE}",
    )


def _named(step: int, attribution: Attribution) -> str:
    return f"step {step:,}, {_named_only(attribution)}"


def _named_only(attribution: Attribution) -> str:
    return f"a loss or gradient that is not finite{f': {attribution.text}' if attribution.text else ''}"


# --- The watch over a run's steps.


class Watch:
    """One process's watch over its steps; `events` lists what was done since the run began."""

    def __init__(self, guard: Guard, checkpoints: Checkpoints) -> None:
        self._guard = guard
        self._checkpoints = checkpoints
        self._first = 0
        self.events: list[Event] = []

    def begin(self, step: int, events: Sequence[Event]) -> None:
        """Starts at a step, with the events of earlier processes."""
        self._first, self.events = step, list(events)

    def evaluated(self, tally: Tally, stop: int) -> tuple[Tally, Mapping | None]:
        """Returns the tally of the steps before `stop` that count; and the session to continue from, if it
        rolled back.

        Raises:
          NotFiniteError: the run ends.
        """
        bad = [self._first + number for number in tally.bad]
        tally = dataclasses.replace(tally, bad=())
        if not bad:
            return tally, None
        if self._guard.policy != "skip":
            return Tally(), self.rolled_back(bad[0], stop)
        for step in bad:
            self._did(*skipped(step, self._guard.attribution(step, False)))
        return dataclasses.replace(tally, skipped=len(bad)), None

    def rolled_back(self, step: int, stop: int) -> Mapping:
        """Takes the weights of the newest checkpoint as those of `stop`; returns the session saved there.

        Raises:
          NotFiniteError: rolling back is not the policy, or there is no checkpoint.
        """
        self._checkpoints.finish()
        # The checkpoint is restored in any case, because the present weights cannot evaluate any record.
        taken, saved = self._checkpoints.restore() if self._checkpoints.newest else (0, {})
        attribution = self._guard.attribution(step, not taken)
        if self._guard.policy != "roll_back" or not taken:
            raise stopped(step, attribution, newest=taken, workdir=self._guard.workdir)
        self._did(*rolled_back(step, to=taken, until=stop, attribution=attribution))
        return saved

    @property
    def rolls_back(self) -> bool:
        return self._guard.policy == "roll_back"

    def _did(self, event: Event, line: str) -> None:
        self.events.append(event)
        self._guard.tell(event, line)
        if len(self.events) > self._guard.allowed:
            self._checkpoints.finish()
            newest = self._checkpoints.newest
            raise too_many(self.events, allowed=self._guard.allowed, newest=newest)
