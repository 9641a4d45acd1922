"""What a careful reader would notice in the numbers, said in a sentence with what to do about it."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pipeline.data.dataset.manifest import TRAIN
from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.report import formats
from pipeline.report.html import Markup, tag
from pipeline.training.report.inputs import ReportInputs, as_float, curve
from pipeline.training.report.results import confusion, majority, overfitting, prior_loss
from pipeline.training.report.run import certificate_command, is_starved, mean_input_wait

_REJECTED_LIMIT = 0.01
_MISSING_LIMIT = 0.5


def findings_section(inputs: ReportInputs) -> Markup | None:
    """The findings as a list; None where there are none."""
    findings = [
        *_of_training(inputs),
        *overfitting(inputs.history),
        *verdict(inputs.evaluation),
        *_of_data(inputs),
    ]
    if not findings:
        return None
    items = (tag("li", tag("b", f"{what} "), advice) for what, advice in findings)
    return tag("section", tag("h2", "Worth a look"), tag("ul", *items), class_="findings", id="findings")


def _of_training(inputs: ReportInputs) -> Iterator[tuple[str, str]]:
    steps, losses = curve(inputs.history, "loss")
    broken = [step for step, loss in zip(steps, losses, strict=True) if not math.isfinite(loss)]
    if broken:
        yield (
            f"The loss is not a finite number from step {formats.count(broken[0])} on.",
            "Lower the learning rate, or look for extreme values below.",
        )
    if is_starved(inputs.history):
        waited = formats.percent(mean_input_wait(inputs.history))
        command = certificate_command(inputs) or "python -m pipeline.feed_rate"
        yield f"Starved: the accelerator waited {waited} of the time.", f"What to change: {command}"


def _of_data(inputs: ReportInputs) -> Iterator[tuple[str, str]]:
    if inputs.damaged:
        yield (
            f"Damaged records with {formats.count(inputs.damaged['rows'])} rows were left out.",
            "They are listed below: restore the files before the next run.",
        )
    manifest = inputs.manifest
    if manifest is not None and manifest.rows_rejected > _REJECTED_LIMIT * manifest.rows_read:
        share = manifest.rows_rejected / manifest.rows_read
        yield f"{formats.percent(share)} of the rows were rejected.", "The reasons stand below."
    if not inputs.statistics:
        return
    split = inputs.statistics.get(TRAIN) or next(iter(inputs.statistics.values()))
    empty = [f.name for f in split.features.values() if f.missing_fraction > _MISSING_LIMIT]
    if empty:
        yield f"Missing in more than half of the rows: {names_of(empty)}.", "Is the column read as intended?"
    constant = [f.name for f in split.features.values() if _is_constant(f)]
    if constant:
        yield f"The same value in every row: {names_of(constant)}.", "The model cannot learn from these."


def _is_constant(feature: FeatureStatistics) -> bool:
    if not feature.present or feature.missing:
        return False  # what is missing at times still tells rows apart
    if feature.numeric is not None:
        return feature.numeric.minimum == feature.numeric.maximum
    return feature.values is not None and feature.values.complete and feature.values.distinct == 1


# --- What an evaluation itself tells against a model, or against the split that it was scored on.


_MAX_NAMES = 6


def verdict(evaluation: Mapping) -> Iterator[tuple[str, str]]:
    """Sentences that say what is wrong, each with one that says what to do about it."""
    r2 = as_float(evaluation.get("r2"))
    if r2 is not None and r2 < 0:
        yield (
            f"R² is {formats.number(r2)}: always answering the mean label would be nearer.",
            "Training was too short or its steps too large, or the features do not tell the label.",
        )
    counts, classes = confusion(evaluation)
    if counts.size:
        yield from _of_classes(counts, classes)
        yield from _of_loss(as_float(evaluation.get("loss")), counts)


def _of_loss(loss: float, counts: np.ndarray) -> Iterator[tuple[str, str]]:
    prior = prior_loss(counts)
    if prior and loss >= prior:
        yield (
            f"The loss, {formats.number(loss)}, is not below {formats.number(prior)}, that of always "
            "answering with the classes' shares.",
            "Training was too short or its steps too large; or it learned by heart and is too sure: train "
            "less, or with --config.train.label_smoothing=0.1.",
        )


def names_of(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(formats.shortened(name, 40) for name in names[:_MAX_NAMES]) + more


def _of_classes(counts: np.ndarray, classes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Of counts [classes, classes], rows by the actual and columns by the predicted class."""
    there = counts.sum(axis=1) > 0
    if not there.all():
        absent = [name for name, is_there in zip(classes, there, strict=True) if not is_there]
        yield (
            f"The split has no example of: {names_of(absent)}.",
            "Its metrics say nothing of them. A larger part of the rows (--splits of convert) may have some.",
        )
    largest, share = majority(counts)
    if there.sum() > 1 and np.trace(counts) / counts.sum() <= share:
        yield (
            f"No more answers are right than by always answering “{classes[largest]}”.",
            "The features may not tell the classes apart, or training was too short.",
        )
    never = [name for name, n in zip(classes, counts.sum(axis=0), strict=True) if not n]
    if never and there.sum() > 1:
        yield f"Never predicted: {names_of(never)}.", "Such classes may have too few examples."
