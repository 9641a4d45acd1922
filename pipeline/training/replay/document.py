"""What is told of a replay as JSON: features as they are stored, and the losses of the whole batch."""

import base64
import math
from collections.abc import Mapping

import numpy as np

from pipeline.data.origins.reader import RawRow
from pipeline.data.schema.feature_types import Image
from pipeline.data.schema.schema import Schema
from pipeline.training.replay.format import told
from pipeline.training.replay.step import Example, Partner, ReplayedStep, Spikes
from pipeline.training.replay.stream import Record
from pipeline.training.replay.value import shown_value

FORMAT = "penstock.replay/1"


def of_step(step: ReplayedStep, schema: Schema) -> dict[str, object]:
    """A step; a number that is not finite is one of the strings "nan", "inf" and "-inf"."""
    return {
        "format": FORMAT,
        "step": step.step,
        "epoch": step.epoch,
        "first_position": step.first_position,
        "checkpoint": step.weights.step,
        "damaged_checkpoints": list(step.weights.damaged),
        **({"weighted_by": step.weighted_by} if step.weighted_by else {}),
        "loss": _number(step.loss),
        "losses": [_number(loss) for loss in step.losses.tolist()],
        "examples": [_example(example, schema) for example in step.examples],
    }


def of_spikes(spikes: Spikes, schema: Schema) -> dict[str, object]:
    """The windows that jumped, and the steps in them that stand out."""
    return {
        "format": FORMAT,
        "log_points": spikes.points,
        "left_out": spikes.left_out,
        "spikes": [
            {
                "first_step": spike.window.first,
                "last_step": spike.window.last - 1,
                "loss": _number(spike.window.loss),
                "usual": _number(spike.window.usual),
                "score": _number(spike.window.score),
                "steps": [
                    {"score": _number(each.score), "usual": _number(each.usual)}
                    | of_step(each.replayed, schema)
                    for each in spike.steps
                ],
            }
            for spike in spikes.found
        ],
    }


def _example(example: Example, schema: Schema) -> dict[str, object]:
    record = example.record
    return {
        "index": example.index,
        "position": record.position,
        "loss": _number(example.loss),
        **({} if example.weight is None else {"weight": _number(example.weight)}),
        "label": told(example, schema).label,
        **({} if example.partner is None else {"mixed_with": _partner(example.partner, schema)}),
        "prediction": _plain(example.prediction),
        **_place(record),
        "raw": _raw(example.raw),
        "features": _features(example.features, schema),
    }


def _place(record: Record) -> dict[str, object]:
    return {
        "dataset": record.dataset,
        "split": record.split,
        "file": record.file,
        "record": record.ordinal,
        "row": record.row,
    }


def _partner(partner: Partner, schema: Schema) -> dict[str, object]:
    return {
        "index": partner.index,
        "share_of_example": partner.share,
        "label": shown_value(schema.label, partner.features[schema.label.name]),
        **({} if partner.weight is None else {"weight": _number(partner.weight)}),
        "position": partner.record.position,
        **_place(partner.record),
    }


def _raw(raw: RawRow | None) -> dict[str, object] | None:
    if raw is None:
        return None
    return {"folder": raw.folder, "file": raw.origin.file, "row": raw.origin.row, "text": raw.text}


def _features(features: Mapping[str, np.ndarray], schema: Schema) -> dict[str, object]:
    """By name; the bytes of an image in base64."""
    images = {feature.name for feature in schema.of_type(Image)}
    return {
        feature.name: base64.b64encode(bytes(features[feature.name][()])).decode()
        if feature.name in images
        else _plain(features[feature.name])
        for feature in schema.features
    }


def _plain(value: np.ndarray) -> object:
    plain = np.asarray(value).tolist()
    return _deep(plain)


def _deep(value: object) -> object:
    if isinstance(value, list):
        return [_deep(each) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return _number(value) if isinstance(value, float) else value


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
