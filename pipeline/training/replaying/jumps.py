"""Which losses stand out among their neighbours: of log points in a run, and of steps in a window.

A score is the distance from the neighbours' median in robust standard deviations: 1.4826 × the median
absolute deviation (Rousseeuw and Croux 1993, "Alternatives to the median absolute deviation"), and at least
5% of the median, so that a loss that hardly varies does not make every wobble a jump. One jump does not hide
the next, as it does in a mean and a standard deviation.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

JUMP = 4.0  # robust standard deviations; 1 in 30,000 normal numbers is as far above
_BEFORE = 10  # windows that a window is compared with: those before it, as losses fall in training
_FEWEST = 3  # of them
_CONSISTENT = 1.4826  # makes the deviation that of a normal distribution
_LEAST_PART = 0.05  # of the median


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """The steps between two log points, [first, last), and their mean loss."""

    first: int
    last: int
    loss: float  # NaN where it was never logged
    usual: float  # median of the windows before; NaN where there are none
    score: float  # infinite where the loss is not finite
    before: tuple[float, ...] = ()  # the losses of the windows before, ten at most

    def is_jump_to(self, loss: float) -> bool:
        """Whether such a loss is far above those before."""
        return _above(np.array(self.before), loss)[1] > JUMP


def windows_that_jumped(points: Sequence[Mapping], *, stopped_before: int | None = None) -> list[Window]:
    """The windows of history.jsonl whose loss is far above that of the ten before, the farthest first.

    Args:
      stopped_before: a step that the run did not log, as it stopped before; the window that would have ended
        there counts as one that jumped. None: it was not stopped.
    """
    steps = [0, *(point["step"] for point in points)]
    losses = np.array([_number(point.get("loss")) for point in points])
    found = [
        _window(first, last, losses[max(0, at - _BEFORE) : at], losses[at])
        for at, (first, last) in enumerate(itertools.pairwise(steps))
    ]
    if stopped_before is not None and stopped_before > steps[-1]:
        found.append(_window(steps[-1], stopped_before, losses[-_BEFORE:], math.nan))
    return sorted((each for each in found if each.score > JUMP), key=lambda each: (-each.score, each.first))


def scores(losses: np.ndarray, *, among: np.ndarray) -> tuple[float, np.ndarray]:
    """The median of the losses `among`, float64 [m], and how far above it each of `losses`, [n], is: [n].

    Only finite losses are compared with: the median is NaN where there are none. The score of a loss that is
    not finite is infinite.
    """
    finite = among[np.isfinite(among)]
    if not len(finite):
        return math.nan, np.where(np.isfinite(losses), 0.0, math.inf)
    middle = float(np.median(finite))
    deviation = _CONSISTENT * float(np.median(np.abs(finite - middle)))
    scale = max(deviation, _LEAST_PART * abs(middle), np.finfo(np.float32).tiny)
    return middle, np.where(np.isfinite(losses), (losses - middle) / scale, math.inf)


def _window(first: int, last: int, before: np.ndarray, loss: float) -> Window:
    usual, score = _above(before, loss)
    return Window(
        first=first, last=last, loss=float(loss), usual=usual, score=score, before=tuple(before.tolist())
    )


def _above(before: np.ndarray, loss: float) -> tuple[float, float]:
    """The median of the losses before, float64 [n], and the loss's score; 0 where too few are before."""
    usual, (score,) = scores(np.array([loss]), among=before)
    is_known = len(before) >= _FEWEST or not math.isfinite(loss)
    return usual, float(score) if is_known else 0.0


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
