"""Steps whose loss jumped, and the examples in them, found without a log of every step.

A run logs means over many steps. So the windows whose loss jumped are found first; then the loss of each step
in them is computed again, all under one checkpoint: what stands out is the batch, not what training did.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from tqdm import tqdm

from pipeline.training.replaying import jumps
from pipeline.training.replaying.jumps import JUMP, Window
from pipeline.training.replaying.losses import Judge
from pipeline.training.replaying.replayed_step import ReplayedStep, replayed_step
from pipeline.training.replaying.training_stream import TrainingStream
from pipeline.training.replaying.weights import Weights

MOST_WINDOWS = 5  # that are computed again
MOST_STEPS = 10  # of a window, that are told
_PROGRESS_AFTER_S = 2.0

WeightsAt = Callable[[int], tuple[Weights, Judge]]  # of a step: which weights judge it, and their judge


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpikedStep:
    """A step whose batch costs much more than those around it."""

    score: float  # robust standard deviations above `usual`
    usual: float  # median of the steps around it
    replayed: ReplayedStep


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spike:
    """A window whose loss jumped, and the steps of it, and of the window before, that stand out."""

    window: Window
    first: int  # the first step whose loss was computed again
    weights: Weights  # under which
    steps: tuple[SpikedStep, ...]  # the farthest first; empty where none stands out


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spikes:
    """What `--spikes` tells of a run."""

    points: int  # lines of history.jsonl
    found: tuple[Spike, ...]  # the farthest jump first
    left_out: int  # windows that jumped, too, but less


def spike_of(
    stream: TrainingStream, window: Window, *, since: int, weights_at: WeightsAt, examples: int
) -> Spike:
    """Computes the loss of the steps [since, window.last) again, and tells those that stand out.

    Args:
      since: where the window before begins: its last step may have broken the weights.
      examples: how many examples of a step are told.
    """
    weights, judge = weights_at(since)
    losses = _losses(stream, since, window.last, judge)
    usual, scores = jumps.scores(losses, among=losses)
    told = functools.partial(replayed_step, stream, judge=judge, weights=weights, examples=examples)
    steps = tuple(
        SpikedStep(score=float(scores[at]), usual=usual, replayed=told(since + at))
        for at in _farthest(scores)
        if _explains(window, losses[window.first - since :])
    )
    return Spike(window=window, first=since, weights=weights, steps=steps)


def _farthest(scores: np.ndarray) -> list[int]:
    """Indices of the largest of the scores, float64 [n], as far as they are jumps."""
    return [at for at in np.argsort(-scores, kind="stable")[:MOST_STEPS].tolist() if scores[at] > JUMP]


def _explains(window: Window, losses: np.ndarray) -> bool:
    """Whether the losses of its steps, float64 [n], computed again, may be looked for a cause.

    What was not logged may be no jump: a run may be under way, or have ended for another reason.
    """
    return math.isfinite(window.loss) or window.is_jump_to(float(losses.mean()))


def _losses(stream: TrainingStream, first: int, last: int, judge: Judge) -> np.ndarray:
    """The mean loss of each step, float64 [last - first]."""
    batches = stream.batches(first, steps=last - first)
    shown = tqdm(batches, total=last - first, desc="replaying", unit="step", delay=_PROGRESS_AFTER_S)
    return np.array([judge(*batch)[0].astype(np.float64).mean() for batch in shown])


def beginnings(points: Sequence[dict]) -> dict[int, int]:
    """Where the window before begins, by the first step of each window of history.jsonl."""
    steps = [0, 0, *(point["step"] for point in points)]
    return dict(zip(steps[1:], steps, strict=False))
