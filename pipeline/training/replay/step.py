"""One replayed step: its examples with their losses, the worst first."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pipeline.base.progress import Bar
from pipeline.data.input.training import Mixed, TargetsOfBatch, partner_of
from pipeline.data.origins.reader import RawRow
from pipeline.training.replay.evaluator import ExampleEvaluator, Weights, worst_first
from pipeline.training.replay.stream import (
    RawFeatures,
    Record,
    TrainingStream,
    origins_of,
    raw_features,
    require_sound,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Partner:
    """The example with which another one is mixed."""

    index: int  # number in the global batch, from 0
    record: Record
    features: RawFeatures  # as stored, the label too
    share: float  # share of the example itself in the mixture, 0 to 1
    weight: float | None = None  # the partner's weight, as stored in the data


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    index: int  # number in the global batch, from 0
    record: Record
    loss: float  # in nats, or squared units of the label; multiplied by the weight, if it has one
    prediction: np.ndarray  # float32 [], or [classes]
    features: RawFeatures  # as stored, the label too
    inputs: dict[str, np.ndarray]  # as the model gets them; images are augmented
    raw: RawRow | None = None  # the raw row from which the record was made, where its dataset knows it
    weight: float | None = None  # as stored in the data
    partner: Partner | None = None  # set where training mixes examples


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplayedStep:
    step: int
    epoch: int  # epoch of its first example, from 0
    first_position: int  # position of its first example in the stream
    weights: Weights  # the weights that evaluate it
    losses: np.ndarray  # float32 [global batch], in the order of the batch
    examples: tuple[Example, ...]  # the worst first
    weighted_by: str = ""  # the feature that weighs the examples; empty: none does

    @property
    def loss(self) -> float:
        """The mean over the global batch."""
        return float(self.losses.astype(np.float64).mean())


def replayed_step(
    stream: TrainingStream, step: int, *, evaluator: ExampleEvaluator, weights: Weights, examples: int
) -> ReplayedStep:
    """Evaluates the step's batch; at most `examples` of its examples are described in full.

    Raises:
      InputError: a record of the batch is damaged.
    """
    records = stream.records(step)
    require_sound(stream.data, records)
    batch = stream.batch(step)
    losses, predictions = evaluator(*batch)
    example_weights = stream.targets.weights_of(batch[1])
    worst = worst_first(losses)[:examples].tolist()
    chosen = [records[index] for index in worst]
    return ReplayedStep(
        step=step,
        epoch=records[0].epoch,
        first_position=records[0].position,
        weights=weights,
        weighted_by=stream.targets.weights.name if stream.targets.weights else "",
        losses=losses,
        examples=tuple(
            Example(
                index=index,
                record=records[index],
                loss=float(losses[index]),
                weight=None if example_weights is None else float(example_weights[index]),
                partner=_partner(stream, batch[1], records, index),
                prediction=predictions[index],
                features=features,
                inputs={name: tensor[index].numpy() for name, tensor in batch[0].items()},
                raw=raw,
            )
            for index, features, raw in zip(
                worst, raw_features(stream.data, chosen), origins_of(stream.data, chosen), strict=True
            )
        ),
    )


def _partner(
    stream: TrainingStream, targets: TargetsOfBatch, records: Sequence[Record], index: int
) -> Partner | None:
    if not isinstance(targets, Mixed):
        return None
    other = partner_of(index)
    weights = stream.targets.weights_of(targets)
    (features,) = raw_features(stream.data, [records[other]])
    return Partner(
        index=other,
        record=records[other],
        features=features,
        share=float(targets.shares[index]),
        weight=None if weights is None else float(weights[other]),
    )


# --- Losses that stand out among their neighbours: losses of log points in a run, and of steps in a window.
#
# A score is the distance from the neighbours' median in robust standard deviations: 1.4826 × the median
# absolute deviation (Rousseeuw and Croux 1993, "Alternatives to the median absolute deviation"), and at least
# 5% of the median. So if a loss hardly varies, a small change is not a jump. One jump does not hide the next,
# which it would with a mean and a standard deviation.


JUMP = 4.0  # robust standard deviations; 1 in 30,000 normal numbers is that far above the median
_BEFORE = 10  # windows with which a window is compared: those before it, because losses fall in training
_FEWEST = 3  # windows before it, at least
_CONSISTENT = 1.4826  # makes the deviation equal to that of a normal distribution
_LEAST_PART = 0.05  # least deviation, as a fraction of the median


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """The steps between two log points, [first, last), and their mean loss."""

    first: int
    last: int
    loss: float  # NaN if it was never logged
    usual: float  # median of the windows before; NaN where there are none
    score: float  # infinite where the loss is not finite
    before: tuple[float, ...] = ()  # the losses of the windows before, ten at most

    def is_jump_to(self, loss: float) -> bool:
        """Returns whether such a loss is far above those before."""
        return _above(np.array(self.before), loss)[1] > JUMP


def windows_that_jumped(points: Sequence[Mapping], *, stopped_before: int | None = None) -> list[Window]:
    """The windows of history.jsonl whose loss is far above that of the ten before, the farthest first.

    Args:
      stopped_before: a step that the run did not log because it stopped earlier; the window that would have
        ended there counts as one that jumped. None: the run did not stop early.
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


def jump_scores(losses: np.ndarray, *, among: np.ndarray) -> tuple[float, np.ndarray]:
    """The median of the losses `among`, float64 [m]; and for each of `losses` [n] a score, [n]: how far it is
    above the median.

    Only finite losses count among `among`: the median is NaN if there are none. The score of a loss that is
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
    """The median of the losses before, float64 [n], and the loss's score; 0 if there are too few losses
    before.
    """
    usual, (score,) = jump_scores(np.array([loss]), among=before)
    is_known = len(before) >= _FEWEST or not math.isfinite(loss)
    return usual, float(score) if is_known else 0.0


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


# --- Steps whose loss jumped, and the examples in them, found without a log of every step.
#
# A run logs means over many steps. So the windows whose loss jumped are found first; then the loss of each
# step in them is computed again, all with one checkpoint. So a loss stands out because of its batch, not
# because the weights changed.


MOST_WINDOWS = 5  # windows whose steps are computed again
MOST_STEPS = 10  # steps of a window that are described

WeightsAt = Callable[[int], tuple[Weights, ExampleEvaluator]]  # function of a step


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpikedStep:
    """A step whose loss is much larger than those of the steps around it."""

    score: float  # robust standard deviations above `usual`
    usual: float  # median of the steps around it
    replayed: ReplayedStep


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spike:
    """A window whose loss jumped, and the steps that stand out, in it and in the window before."""

    window: Window
    first: int  # the first step whose loss was computed again
    weights: Weights  # the weights that evaluate the steps
    steps: tuple[SpikedStep, ...]  # the farthest first; empty if none stands out


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spikes:
    """The report of `--spikes` on a run."""

    points: int  # number of lines in history.jsonl
    found: tuple[Spike, ...]  # the farthest jump first
    left_out: int  # number of further windows that jumped, but less


def spike_of(
    stream: TrainingStream, window: Window, *, since: int, weights_at: WeightsAt, examples: int
) -> Spike:
    """Computes the loss of the steps [since, window.last) again, and returns those that stand out.

    Args:
      since: the first step of the window before, whose last step may have broken the weights.
      examples: how many examples of a step are described.
    """
    weights, evaluator = weights_at(since)
    losses = _losses(stream, since, window.last, evaluator)
    usual, scores = jump_scores(losses, among=losses)
    described = functools.partial(
        replayed_step, stream, evaluator=evaluator, weights=weights, examples=examples
    )
    steps = tuple(
        SpikedStep(score=float(scores[at]), usual=usual, replayed=described(since + at))
        for at in _farthest(scores)
        if _explains(window, losses[window.first - since :])
    )
    return Spike(window=window, first=since, weights=weights, steps=steps)


def _farthest(scores: np.ndarray) -> list[int]:
    """Indices of the largest scores, float64 [n], that are jumps."""
    return [at for at in np.argsort(-scores, kind="stable")[:MOST_STEPS].tolist() if scores[at] > JUMP]


def _explains(window: Window, losses: np.ndarray) -> bool:
    """Returns whether a window may be explained by the recomputed losses of its steps, float64 [n].

    A window without a logged loss may have no jump: the run may be under way, or have ended for another
    reason.
    """
    return math.isfinite(window.loss) or window.is_jump_to(float(losses.mean()))


def _losses(stream: TrainingStream, first: int, last: int, evaluator: ExampleEvaluator) -> np.ndarray:
    """The mean loss of each step, float64 [last - first]."""
    batches = stream.batches(first, steps=last - first)
    shown = Bar(batches, total=last - first, desc="replaying", unit="step")
    return np.array([evaluator(*batch)[0].astype(np.float64).mean() for batch in shown])


def beginnings(points: Sequence[dict]) -> dict[int, int]:
    """Maps the first step of each window in history.jsonl to the first step of the window before it."""
    steps = [0, 0, *(point["step"] for point in points)]
    return dict(zip(steps[1:], steps, strict=False))
