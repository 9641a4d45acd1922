"""What a run does about a step whose loss or gradient is infinite or not a number.

    stop       ends the run, and names the records.
    skip       changes nothing in that step. Needs a look at every gradient.
    roll_back  takes the weights of the newest checkpoint and goes on with the next batch: those of the steps
               since that checkpoint are passed over, as Chowdhery et al. 2022 (PaLM, section 5.1) do.

Skipping and rolling back follow from data and state alone, and what was done is saved in the next checkpoint.
So a run that is killed ends as one that is not.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pipeline.data.errors import InputError
from pipeline.data.nearest import did_you_mean
from pipeline.training.loop import not_finite
from pipeline.training.loop.not_finite import NotFiniteError

Policy = Literal["stop", "skip", "roll_back"]
POLICIES: Sequence[Policy] = ("stop", "skip", "roll_back")

Event = Mapping[str, int | str]  # what was done about a bad step, for run.json


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blame:
    """Which records of a bad step are at fault."""

    text: str
    is_certain: bool  # a loss of theirs is not finite though the weights are


@dataclasses.dataclass(frozen=True, kw_only=True)
class Guard:
    """A run's policy, and whom it asks and tells.

    Args:
      allowed: bad steps, or times to roll back, after which the run ends in any case.
      blame: function of (a step, whether the model's weights are spoiled, so that the initial ones judge).
      tell: receives what was done, and a line on it.
      workdir: of the run, for commands that are advised.
    """

    policy: Policy = "stop"
    allowed: int = 10
    workdir: str = "WORKDIR"
    blame: Callable[[int, bool], Blame] = lambda step, is_spoiled: Blame(text="", is_certain=False)
    tell: Callable[[Event, str], None] = lambda event, line: None


def require_policy(policy: str, allowed: int) -> None:
    """Raises InputError where the config names no policy, or allows less than nothing."""
    if policy not in POLICIES:
        raise InputError(
            "--config.train.on_bad_step",
            received=repr(policy),
            expected=f"one of {', '.join(POLICIES)}",
            action=did_you_mean(policy, POLICIES, otherwise="Choose one of these."),
        )
    if allowed < 0:
        raise InputError(
            "--config.train.bad_steps_allowed",
            received=allowed,
            expected="0 or more",
            action="Correct it in the config file or on the command line.",
        )


def skipped(step: int, blame: Blame) -> tuple[Event, str]:
    """What is saved, and told, of a step that was skipped."""
    return {"step": step, "did": "skipped"}, f"skipped    {_named(step, blame)}"


def rolled_back(step: int, *, to: int, until: int, blame: Blame) -> tuple[Event, str]:
    """The same of a run that took the weights of checkpoint `to`, and goes on as step `until`."""
    event = {"step": step, "did": "rolled back", "to": to, "until": until}
    line = f"rolled back to the weights of step {to:,}, and on with the batch of step {until:,}"
    return event, f"{line}: {_named(step, blame)}"


def stopped(step: int, blame: Blame, *, newest: int, workdir: str) -> NotFiniteError:
    """The error that ends the run."""
    look = f"Look at the batch: python -m pipeline.replay --step={step} --workdir={workdir}"
    advice = (
        f"{look}; correct the data, or go on in this --workdir with --config.train.on_bad_step=skip."
        if blame.is_certain
        else f"{look}. {not_finite.TRAIN_OTHERWISE}"
    )
    return NotFiniteError(
        f"step {step:,}",
        received=_named_only(blame),
        expected="finite numbers",
        action=f"{not_finite.saved(newest)} {advice}",
    )


def too_many(events: Sequence[Event], *, allowed: int, newest: int) -> NotFiniteError:
    """The error that ends a run with more bad steps than are allowed."""
    steps = ", ".join(f"{event['step']:,}" for event in events)
    return NotFiniteError(
        f"steps {steps}",
        received="losses or gradients that are not finite",
        expected=f"at most {allowed} such steps: --config.train.bad_steps_allowed",
        action=f"{not_finite.saved(newest)} {not_finite.TRAIN_OTHERWISE}",
    )


def _named(step: int, blame: Blame) -> str:
    return f"step {step:,}, {_named_only(blame)}"


def _named_only(blame: Blame) -> str:
    return f"a loss or gradient that is not finite{f': {blame.text}' if blame.text else ''}"
