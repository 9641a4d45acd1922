"""Which weights of a run judge the examples of a step."""

import dataclasses
import pathlib
from collections.abc import Callable

from pipeline.data.errors import InputError
from pipeline.training.state.checkpoints import directory
from pipeline.training.state.checkpoints.directory import Entry
from pipeline.training.state.checkpoints.manifest import DamagedError

DamageOf = Callable[[Entry], str]  # `damage`, or what remembers its answers: it reads whole checkpoints


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weights:
    """The weights after so many steps; 0: as the model was initialised, which its seed decides."""

    step: int
    damaged: tuple[str, ...] = ()  # checkpoints that would have been chosen, and what is wrong with each
    are_averaged_too: bool = False  # the run keeps averages, which are not meant here

    def seen_from(self, step: int) -> str:
        """In words, what judges the examples of `step`."""
        if not self.step:
            return f"the initial weights, before the first step{self._why_initial(step)}"
        averages = "; as they are trained, not their averages" if self.are_averaged_too else ""
        return f"the weights of the checkpoint of step {self.step:,}, {self._distance(step)}{averages}"

    def _why_initial(self, step: int) -> str:
        if self.damaged:
            return ", as every checkpoint of the run is damaged"
        return ", as the run keeps no checkpoint" if step else ""

    def _distance(self, step: int) -> str:
        if step == self.step:
            return "which this step was taken from"
        if step > self.step:
            return f"{_steps(step - self.step)} before"
        return f"{_steps(self.step - step)} after: none before it is kept"


def nearest(root: pathlib.Path, step: int, *, damage_of: DamageOf) -> Weights:
    """The newest sound checkpoint of at most `step` steps; where there is none, the oldest of more.

    The initial weights come last: they tell one label from another as badly as a coin.
    """
    entries = directory.newest_first(root)
    before = [entry for entry in entries if entry.step <= step]
    after = [entry for entry in reversed(entries) if entry.step > step]
    damaged: list[str] = []
    for entry in (*before, *after):
        reason = damage_of(entry)
        if not reason:
            return Weights(step=entry.step, damaged=tuple(damaged))
        if entry in directory.newest_first(root):  # or a run that goes on has deleted it meanwhile
            damaged.append(reason)
    return Weights(step=0, damaged=tuple(damaged))


def asked_for(root: pathlib.Path, step: int, *, damage_of: DamageOf) -> Weights:
    """The checkpoint of exactly so many steps; 0: the initial weights. Raises InputError where it is not."""
    found = [entry for entry in directory.newest_first(root) if entry.step == step]
    reasons = [damage_of(entry) for entry in found]
    if not step or "" in reasons:
        return Weights(step=step)
    sound = [entry.step for entry in reversed(directory.newest_first(root)) if not damage_of(entry)]
    steps = ", ".join(map(str, sound))
    raise InputError(
        f"--checkpoint={step}",
        received=f"a damaged checkpoint ({'; '.join(reasons)})" if reasons else "no such checkpoint",
        expected=f"0, for the initial weights{f', or one of {steps}' if steps else ''}",
        action="Choose one of these, or leave --checkpoint out to take the nearest one.",
    )


def damage(entry: Entry) -> str:
    """What is wrong with a checkpoint; empty where nothing is."""
    try:
        entry.check()
    except DamagedError as error:
        return str(error)
    return ""


def _steps(number: int) -> str:
    return f"{number:,} step{'s' * (number != 1)}"
