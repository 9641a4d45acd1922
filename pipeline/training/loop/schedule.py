"""When things happen in a run, counted in steps.

Every stop is a pure function of the absolute step. So a resumed run stops exactly where the undisturbed
one does, and adds up the same numbers in the same order.
"""

import dataclasses
import fractions
import math


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
        """Epochs done when `step` steps are."""
        return self.position(step) / self.records

    def epoch(self, step: int) -> int:
        """The epoch, from 0, of the step that runs when `step` steps are done."""
        return self.position(step) // self.records

    @property
    def steps_of_epoch(self) -> int:
        """Steps of the first epoch, of which later ones may have one less."""
        return self._next_epoch_end(0)

    def step_in_epoch(self, step: int) -> int:
        """The number, from 0 in its epoch, of the step that runs when `step` steps are done."""
        return step - math.ceil(self.epoch(step) * self.records / self.global_batch)

    def next_stop(self, step: int) -> int:
        """The first step after `step` at which the host takes over from the inner loop."""
        every = (self.steps_per_loop, self.log_every_steps, self.checkpoint_every_steps)
        regular = (step - step % steps + steps for steps in every)
        return min(*regular, self._next_epoch_end(step), self.total_steps)

    def ends_epoch(self, step: int) -> bool:
        """Whether `step` takes an epoch's last example, or is the run's last step."""
        return step == self.total_steps or step == self._next_epoch_end(step - 1)

    def saves(self, step: int) -> bool:
        """Whether a checkpoint is due after `step`."""
        return self.ends_epoch(step) or step % self.checkpoint_every_steps == 0

    def logs(self, step: int) -> bool:
        """Whether a log point is due after `step`."""
        # Whatever is saved is logged too: the sums of an open window would be lost with the process.
        return self.saves(step) or step % self.log_every_steps == 0

    def _next_epoch_end(self, step: int) -> int:
        # Batches run across epoch boundaries, so an epoch ends in the step that takes its last example.
        done = self.position(step) // self.records
        return math.ceil((done + 1) * self.records / self.global_batch)


def total_steps(*, epochs: float, records: int, global_batch: int) -> int:
    """The steps that it takes to see every example `epochs` times."""
    # As they are written: in floating point 1.1 × 50,000 is more than 55,000, and would take a step more.
    return math.ceil(fractions.Fraction(str(epochs)) * records / global_batch)
