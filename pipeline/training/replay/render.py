"""A replayed step for people and programs: sections for the terminal and a page with pictures, and JSON."""

import base64
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.base.errors import printable
from pipeline.data.images.pixels import RESCALING
from pipeline.data.origins.reader import RawRow
from pipeline.data.schema.feature_types import Image, Label, Tensor, TokenLabel
from pipeline.data.schema.schema import Schema
from pipeline.report import formats
from pipeline.report.html import Markup, tag
from pipeline.report.section import Cell, Code, Facts, Section, Tiles
from pipeline.training.replay.format import NO_CLASS, format_label, format_value, image_format
from pipeline.training.replay.step import JUMP, Example, Partner, ReplayedStep, Spike, Spikes, Window
from pipeline.training.replay.stream import RawFeatures, Record, place

FORMAT = "penstock.replay/1"

_FAR = "robust standard deviations"
_NAME = 40  # characters of a feature's name in a sentence
_CHARACTERS = 300  # characters of a value that are shown
_LARGEST_STORED = 2 << 20  # 2 MiB: a page of larger pictures would take minutes to load


def step_sections(step: ReplayedStep, schema: Schema, *, run: str, total_steps: int) -> list[Section]:
    """The step, then its examples, the worst first; `run` names the run."""
    first, count = step.first_position, len(step.losses)
    stream = f"positions {first:,} to {first + count - 1:,} of the stream: {count:,} examples"
    worst = formats.number(step.examples[0].loss)
    head = [
        Tiles(items=[(formats.number(step.loss), "loss of the batch"), (worst, "largest of an example")]),
        Cell(text=f"{run} · epoch {step.epoch:,}, {stream}", style="origin"),
        Facts(items=[*_weights(step), ("losses", _losses(step.losses))]),
    ]
    title = f"Step {step.step:,} of {total_steps:,}"
    return [Section(title=title, parts=head), *_examples(step, schema)]


def spikes_sections(spikes: Spikes, schema: Schema, *, run: str) -> list[Section]:
    """The windows that jumped, and in each the steps that stand out."""
    rest = [f"{spikes.left_out:,} more windows jumped, but less"] if spikes.left_out else []
    if not spikes.found:
        than = f"a loss more than {JUMP:g} {_FAR} above those before it"
        rest = [f"no jump: of {spikes.points:,} log points none has {than}"]
    head = Section(title="Steps whose loss jumped", parts=[Cell(text=run, style="origin"), *rest])
    return [head, *(section for spike in spikes.found for section in _spike(spike, schema))]


def step_json(step: ReplayedStep, schema: Schema) -> dict[str, object]:
    """A step; a number that is not finite is one of the strings "nan", "inf" and "-inf"."""
    return {
        "format": FORMAT,
        "step": step.step,
        "epoch": step.epoch,
        "first_position": step.first_position,
        "checkpoint": step.weights.step,
        "damaged_checkpoints": list(step.weights.damaged),
        **({"weighted_by": step.weighted_by} if step.weighted_by else {}),
        "loss": _plain(step.loss),
        "losses": _plain(step.losses),
        "examples": [_example_json(example, schema) for example in step.examples],
    }


def spikes_json(spikes: Spikes, schema: Schema) -> dict[str, object]:
    return {
        "format": FORMAT,
        "log_points": spikes.points,
        "left_out": spikes.left_out,
        "spikes": [
            {
                "first_step": spike.window.first,
                "last_step": spike.window.last - 1,
                **{key: _plain(getattr(spike.window, key)) for key in ("loss", "usual", "score")},
                "steps": [
                    {"score": _plain(each.score), "usual": _plain(each.usual)}
                    | step_json(each.replayed, schema)
                    for each in spike.steps
                ],
            }
            for spike in spikes.found
        ],
    }


def _spike(spike: Spike, schema: Schema) -> Iterator[Section]:
    yield Section(title=f"Jump in {_window(spike.window)}", parts=[verdict(spike)])
    for each in spike.steps:
        step, usual = each.replayed, formats.number(each.usual)
        how_far = f", {each.score:.1f} {_FAR} more" if math.isfinite(each.score) else ""
        title = f"Step {step.step:,}: loss {formats.number(step.loss)}, usual there {usual}{how_far}"
        yield Section(title=title, parts=[Facts(items=_weights(step))])
        yield from _examples(step, schema)


def verdict(spike: Spike) -> str:
    """Compares the steps of the window and of the window before."""
    steps = f"steps {spike.first:,} to {spike.window.last - 1:,}"
    weights = spike.weights.seen_from(spike.first)
    if spike.steps:
        return f"Of the {steps} these stand out, under {weights}:"
    return f"No batch of the {steps} stands out under {weights}: the data do not explain the jump"


def _window(found: Window) -> str:
    """`steps 100 to 199: loss 0.91 after 0.3102, 12.3 robust standard deviations more`."""
    steps = f"steps {found.first:,} to {found.last - 1:,}"
    if not math.isfinite(found.loss):
        return f"{steps}: no finite loss was logged before the run ended"
    loss, usual = formats.number(found.loss), formats.number(found.usual)
    return f"{steps}: loss {loss} after {usual}, {found.score:.1f} {_FAR} more"


def _weights(step: ReplayedStep) -> list[tuple[str, str]]:
    """Describes the weights that gave the losses, the damaged checkpoints, and the example weights."""
    name = formats.shortened(step.weighted_by, _NAME)
    times = f"each loss is multiplied by the example's {name}, relative to the mean"
    return [
        ("evaluated by", step.weights.seen_from(step.step)),
        *(("damaged", each) for each in step.weights.damaged),
        ("weighted", f"{times}: what moved the step most comes first" if name else ""),
    ]


def _losses(values: np.ndarray) -> str:
    """Mean, median and largest of the finite losses in float32 [n]; and how many are not finite."""
    finite = values[np.isfinite(values)].astype(np.float64)
    bad = len(values) - len(finite)
    said = [f"{bad:,} not finite"] if bad else []
    if len(finite):
        numbers = {"mean": finite.mean(), "median": np.median(finite), "largest": finite.max()}
        said += [f"{name} {formats.number(float(value))}" for name, value in numbers.items()]
    return ", ".join(said)


def _examples(step: ReplayedStep, schema: Schema) -> list[Section]:
    return [_example(rank, example, schema) for rank, example in enumerate(step.examples, 1)]


def _example(rank: int, example: Example, schema: Schema) -> Section:
    label, record, raw, values = schema.label, example.record, example.raw, example.features
    facts = [
        (f"label {label.name}", _short(format_label(schema, values))),
        ("predicted", _short(prediction(example, label))),
        ("weight", None if example.weight is None else formats.number(example.weight)),
        ("record", Cell(text=place(record), note=f"split {record.split} of {record.dataset}")),
        ("mixed", _short(_mixed(example.partner, schema))),
        ("raw row", Cell(text=raw, note=f"in {raw.folder}") if raw else None),
        ("in the batch", f"example {example.index:,}, position {record.position:,}"),
    ]
    features = [
        (_short(feature.name), _short(format_value(feature, values[feature.name])))
        for feature in schema.inputs
    ]
    return Section(
        title=f"{rank}. Loss {formats.number(example.loss)}",
        parts=[
            Facts(items=facts),
            Code(text=_short(printable(raw.text))) if raw and raw.text else None,
            _pictures(example, schema),
            Facts(items=features, title="Features, as stored", is_dense=True),
        ],
    )


def _short(text: str) -> str:
    return formats.shortened(text, _CHARACTERS)


def _mixed(partner: Partner | None, schema: Schema) -> str:
    """Describes how much of an example is itself, and its partner; empty where it is not mixed."""
    if partner is None:
        return ""
    weight = "" if partner.weight is None else f" of weight {formats.number(partner.weight)}"
    other = f"{format_label(schema, partner.features)}{weight} ({place(partner.record)})"
    return f"{partner.share:.1%} itself, {1 - partner.share:.1%} {other}"


def prediction(example: Example, label: Label) -> str:
    """Formats the prediction: `yes 0.9731` or, if that is neither its label nor its partner's, `yes 0.9731,
    no 0.0269`.
    """
    given, partner = example.prediction, [example.partner] if example.partner else []
    if isinstance(label, TokenLabel):
        return format_value(Tensor(name=label.name, dimensions=given.shape), given)
    if not label.classes:
        return ", ".join(f"{value:.6g}" for value in np.ravel(given))
    if label.shape:
        return _several(given, _is_there(example.features, label), label)
    actual = [int(each.features[label.name]) for each in (example, *partner)]
    known = [each for each in actual if 0 <= each < len(label.classes)]
    shown = dict.fromkeys((int(np.argmax(given)), *known))
    return ", ".join(f"{label.classes[each]} {given[each]:.4f}" for each in shown)


def _several(given: np.ndarray, is_there: np.ndarray, label: Label) -> str:
    """`war 0.9731, crime 0.2112`: the classes that are answered or there, the surest first."""
    shown = [at for at in np.argsort(-given) if given[at] > 0.5 or is_there[at]]
    return ", ".join(f"{label.classes[at]} {given[at]:.4f}" for at in shown) or NO_CLASS


def _is_there(features: RawFeatures, label: Label) -> np.ndarray:
    """Whether an example has each class of a multilabel: 1 or 0, [classes]."""
    return np.concatenate([np.ravel(features[name]) for name in label.parts])


def _pictures(example: Example, schema: Schema) -> Markup | None:
    """The stored file of the image, that of its partner, and the pixels that the model got."""
    pixels = example.inputs.get("image")
    shown = {
        "as stored": _stored(example.features, schema),
        "mixed with": _stored(example.partner.features, schema) if example.partner else None,
        "as the model got it": None if pixels is None else _url(_png(pixels), "png"),
    }
    figures = [
        tag("figure", tag("img", src=url, alt=name), tag("figcaption", tag("span", name)))
        for name, url in shown.items()
        if url
    ]
    return tag("div", *figures, class_="pictures") if figures else None


def _stored(features: RawFeatures, schema: Schema) -> str | None:
    """The file of an image as a data URL; None if there is none, or if it is too large."""
    images = schema.of_type(Image)
    data = bytes(features[images[0].name][()]) if images else b""
    kind = image_format(data)
    return _url(data, kind.lower()) if kind and len(data) <= _LARGEST_STORED else None


def _png(pixels: np.ndarray) -> bytes:
    """The PNG of pixels [height, width, channels], which may have been scaled on the host."""
    if pixels.dtype != np.uint8:
        scale, offset = RESCALING
        pixels = np.clip(np.round((pixels.astype(np.float32) - offset) / scale), 0, 255).astype(np.uint8)
    return tf.io.encode_png(pixels).numpy()


def _url(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _example_json(example: Example, schema: Schema) -> dict[str, object]:
    record = example.record
    return {
        "index": example.index,
        "position": record.position,
        "loss": _plain(example.loss),
        **({} if example.weight is None else {"weight": _plain(example.weight)}),
        "label": format_label(schema, example.features),
        **({} if example.partner is None else {"mixed_with": _partner_json(example.partner, schema)}),
        "prediction": _plain(example.prediction),
        **_place_json(record),
        "raw": _raw_json(example.raw),
        "features": _features_json(example.features, schema),
    }


def _place_json(record: Record) -> dict[str, object]:
    where = {"dataset": record.dataset, "split": record.split, "file": record.file}
    return where | {"record": record.ordinal, "row": record.row}


def _partner_json(partner: Partner, schema: Schema) -> dict[str, object]:
    return {
        "index": partner.index,
        "share_of_example": partner.share,
        "label": format_label(schema, partner.features),
        **({} if partner.weight is None else {"weight": _plain(partner.weight)}),
        "position": partner.record.position,
        **_place_json(partner.record),
    }


def _raw_json(raw: RawRow | None) -> dict[str, object] | None:
    if raw is None:
        return None
    return {"folder": raw.folder, "file": raw.origin.file, "row": raw.origin.row, "text": raw.text}


def _features_json(features: Mapping[str, np.ndarray], schema: Schema) -> dict[str, object]:
    """The features by name, for JSON; the bytes of an image are in base64."""
    images = {feature.name for feature in schema.of_type(Image)}
    return {
        feature.name: base64.b64encode(bytes(features[feature.name][()])).decode()
        if feature.name in images
        else _plain(features[feature.name])
        for feature in schema.features
    }


def _plain(value: object) -> object:
    """Returns a value that JSON can hold: lists, text, and numbers; numbers that are not finite as text."""
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
