"""What is said of a replayed example, in words: terminal, page and JSON say the same."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.data.dataset.origins.raw_rows import RawRow
from pipeline.data.schema.kinds import Label
from pipeline.data.schema.schema import Schema
from pipeline.training.replaying.record import Record
from pipeline.training.replaying.replayed_step import Example, Partner
from pipeline.training.replaying.shown.value import shown_value
from pipeline.training.report.drawing import formats


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
