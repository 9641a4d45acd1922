"""What is said of a replayed example, in words: terminal, page and JSON say the same."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.base.errors import printable
from pipeline.data.origins.reader import RawRow
from pipeline.data.schema.feature_types import Label
from pipeline.data.schema.schema import Schema
from pipeline.report import formats
from pipeline.training.replay.step import (
    JUMP,
    Example,
    Partner,
    ReplayedStep,
    Spike,
    SpikedStep,
    Spikes,
    Window,
)
from pipeline.training.replay.stream import Record
from pipeline.training.replay.value import shown_value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Told:
    """An example in words. Texts may be long, and hold any character."""

    loss: float
    weight: float | None
    label: str
    prediction: str
    place: str  # in its dataset
    raw: str  # file, line and text of its raw row; empty where they are not known
    mixed: str  # how much it is itself, and of what the rest is; empty where it is not mixed
    features: Mapping[str, str]  # inputs by name, in the order of the schema


def told(example: Example, schema: Schema) -> Told:
    """The example in words."""
    label, raw = schema.label, example.features
    return Told(
        loss=example.loss,
        weight=example.weight,
        label=shown_value(label, raw[label.name]),
        prediction=_prediction(label, _labels(example, label), example.prediction),
        place=place(example.record),
        raw=raw_row(example.raw),
        mixed=_mixed(example.partner, label),
        features={
            feature.name: shown_value(feature, raw[feature.name])
            for feature in schema.features
            if feature.name != label.name
        },
    )


def _mixed(partner: Partner | None, label: Label) -> str:
    if partner is None:
        return ""
    weight = "" if partner.weight is None else f" of weight {formats.number(partner.weight)}"
    other = f"{shown_value(label, partner.features[label.name])}{weight} ({place(partner.record)})"
    return f"{partner.share:.1%} itself, {1 - partner.share:.1%} {other}"


def place(record: Record) -> str:
    """Where a record is stored: its file, its ordinal there, and its row where it is a block."""
    row = "" if record.row is None else f", row {record.row:,}"
    return f"{record.file}, record {record.ordinal:,}{row}"


def raw_row(raw: RawRow | None) -> str:
    """`visits.csv line 26: 26,Genf,1,no`, or as much of it as is known."""
    return "" if raw is None else str(raw) if raw.text is None else f"{raw}: {raw.text}"


def _labels(example: Example, label: Label) -> list[np.ndarray]:
    """The example's own, [], and that of what it is mixed with."""
    mixed = (example,) if example.partner is None else (example, example.partner)
    return [each.features[label.name] for each in mixed]


def _prediction(label: Label, actual: Sequence[np.ndarray], prediction: np.ndarray) -> str:
    """`yes 0.9731` or, where that is not the label, `yes 0.9731, no 0.0269`; of a regression the value.

    Args:
      actual: the labels, [] each: two where examples are mixed.
    """
    if not label.classes:
        return f"{float(prediction):.6g}"
    known = [int(each) for each in actual if 0 <= each < len(label.classes)]
    shown = dict.fromkeys((int(np.argmax(prediction)), *known))
    return ", ".join(f"{label.classes[each]} {prediction[each]:.4f}" for each in shown)


# --- What terminal and page say of a step, a window and their losses, each in a line.


_FAR = "robust standard deviations"
_NAME = 40  # characters of a feature's name


def place_of_step(step: ReplayedStep) -> str:
    """Where the step's batch stands in the stream."""
    first, count = step.first_position, len(step.losses)
    last = first + count - 1
    return f"epoch {step.epoch:,}, positions {first:,} to {last:,} of the stream: {count:,} examples"


def weighted(step: ReplayedStep) -> str:
    """What the losses are, where examples have weights; else empty."""
    if not step.weighted_by:
        return ""
    name = formats.shortened(printable(step.weighted_by), _NAME)
    return (
        f"each loss is times the example's {name}, relative to the mean: the order is of what moved the step"
    )


def losses(values: np.ndarray) -> str:
    """Mean, median and largest of float32 [n], as far as they are finite; and how many are not."""
    finite = values[np.isfinite(values)].astype(np.float64)
    bad = len(values) - len(finite)
    said = [f"{bad:,} not finite"] if bad else []
    if len(finite):
        numbers = {"mean": finite.mean(), "median": np.median(finite), "largest": finite.max()}
        said += [f"{name} {formats.number(float(value))}" for name, value in numbers.items()]
    return ", ".join(said)


def window(found: Window) -> str:
    """`steps 100 to 199: loss 0.91 after 0.3102, 12.3 robust standard deviations more`."""
    steps = f"steps {found.first:,} to {found.last - 1:,}"
    if not math.isfinite(found.loss):
        return f"{steps}: no finite loss was logged before the run ended"
    loss, usual = formats.number(found.loss), formats.number(found.usual)
    return f"{steps}: loss {loss} after {usual}, {found.score:.1f} {_FAR} more"


def verdict(spike: Spike) -> str:
    """How the steps of the window, and of the one before, compare."""
    steps = f"steps {spike.first:,} to {spike.window.last - 1:,}"
    weights = spike.weights.seen_from(spike.first)
    if spike.steps:
        return f"of the {steps} these stand out, under {weights}:"
    return f"no batch of the {steps} stands out under {weights}: the data do not explain the jump"


def spiked_step(step: SpikedStep) -> str:
    """How far the step's loss is from those around it."""
    loss, usual = formats.number(step.replayed.loss), formats.number(step.usual)
    how_far = f", {step.score:.1f} {_FAR} more" if math.isfinite(step.score) else ""
    return f"step {step.replayed.step:,}: loss {loss}, usual there {usual}{how_far}"


def no_jump(spikes: Spikes) -> str:
    """What is said where no window jumped."""
    return (
        f"no jump: of {spikes.points:,} log points none has a loss more than {JUMP:g} {_FAR} above those "
        "before it"
    )


def left_out(spikes: Spikes) -> str:
    """What is said of windows that were not looked into; empty where there are none."""
    return f"{spikes.left_out:,} more windows jumped, but less" if spikes.left_out else ""
