"""Watches a run for steps whose loss is not finite, and does about them what its guard says."""

import dataclasses
from collections.abc import Mapping, Sequence

from pipeline.training.loop import bad_steps
from pipeline.training.loop.bad_steps import Event, Guard
from pipeline.training.loop.checkpoints import Checkpoints
from pipeline.training.loop.step_sums import Tally


class Watch:
    """One process's watch over its steps; `events` is what was done since the run began."""

    def __init__(self, guard: Guard, checkpoints: Checkpoints) -> None:
        self._guard = guard
        self._checkpoints = checkpoints
        self._first = 0
        self.events: list[Event] = []

    def begin(self, step: int, events: Sequence[Event]) -> None:
        """Told the step at which this process begins, and what was done before."""
        self._first, self.events = step, list(events)

    def judged(self, tally: Tally, stop: int) -> tuple[Tally, Mapping | None]:
        """What counts of the steps before `stop`; and the session to go on from, where it was rolled back.

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
            self._did(*bad_steps.skipped(step, self._guard.blame(step, False)))
        return dataclasses.replace(tally, skipped=len(bad)), None

    def rolled_back(self, step: int, stop: int) -> Mapping:
        """Takes the weights of the newest checkpoint as those of `stop`; returns the session saved there.

        Raises:
          NotFiniteError: rolling back is not asked for, or there is no checkpoint.
        """
        self._checkpoints.finish()
        # Restored in any case: what the model holds now can judge no record.
        taken, saved = self._checkpoints.restore() if self._checkpoints.newest else (0, {})
        blame = self._guard.blame(step, not taken)
        if self._guard.policy != "roll_back" or not taken:
            raise bad_steps.stopped(step, blame, newest=taken, workdir=self._guard.workdir)
        self._did(*bad_steps.rolled_back(step, to=taken, until=stop, blame=blame))
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
            raise bad_steps.too_many(self.events, allowed=self._guard.allowed, newest=newest)
