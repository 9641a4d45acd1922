"""What a careful reader would notice in the numbers, said in a sentence with what to do about it."""

import math
from collections.abc import Iterator

from pipeline.data.dataset.splits import TRAIN
from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.markup import Markup, tag
from pipeline.training.report.sections.feeding import certificate_command, is_starved, mean_input_wait
from pipeline.training.report.sections.inputs import ReportInputs, curve
from pipeline.training.report.sections.overfitting import overfitting
from pipeline.training.report.sections.verdict import names_of, verdict

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
