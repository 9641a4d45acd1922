"""What the loop's parts tell of the wall time: which kind of work is going on."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal, ParamSpec, Protocol, TypeVar

Kind = Literal["compile", "training", "evaluation", "checkpoint", "report"]
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Times(Protocol):
    """Adds up seconds by kind. What is in no block is `start` before the first step, else `callbacks`."""

    def during(self, kind: Kind) -> AbstractContextManager[None]:
        """A block of one kind. In a block within it, time counts for the inner one only."""

    def trained(self, steps: int, *, waited: float, first: bool = False) -> None:
        """Told after steps: `waited` seconds of the block before were waiting for input, not its kind.

        Args:
          first: the step was a process's first, and its wait was that for the input pipeline to start.
        """

    def saved(self, waited: float) -> None:
        """Told after a checkpoint: training waited so many seconds for it."""


def timed(times: Times, kind: Kind, function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """The function, whose calls are blocks of `kind`."""

    def call(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        with times.during(kind):
            return function(*arguments, **named)

    return call
