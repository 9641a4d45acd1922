"""Sums over training steps: time, loss, right answers."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tally:
    """Sums over steps and replicas. Tallies of consecutive steps can be added.

    `bad` holds the numbers, from 0 where the process began, of steps whose loss was not finite.
    """

    steps: int = 0
    seconds: float = 0.0
    input_wait_s: float = 0.0
    loss: float = 0.0  # over the examples
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
