"""Drift in a report: how far each span of the holdout lies from what the champion was trained on."""

import numpy as np

from pipeline.data.dataset import statistics
from pipeline.data.dataset.manifest import STATISTICS_FILE_NAME
from pipeline.data.dataset.splits import TRAIN
from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kinds import Numeric
from pipeline.data.statistics import drift
from pipeline.release.cycles.stages.job import Job
from pipeline.training.replaying.shown.value import EMPTY, shown_value
from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.intervals import Interval, interval_chart
from pipeline.training.report.drawing.markup import Markup, table, tag

_DRAWN = 20


def section(job: Job) -> Markup | None:
    """Each feature of the newest span against the training statistics of this cycle's model."""
    spans = job.plan["spans"]
    before = job.export / STATISTICS_FILE_NAME
    if not before.exists():
        return None
    newest = job.directories("holdout")[-1] / STATISTICS_FILE_NAME
    now = statistics.read(newest)
    rows = spans[-1]["rows"]
    largest = TRAIN if rows.get(TRAIN) else max(rows, key=rows.get)
    trained = statistics.read(before)[TRAIN].features
    found = [
        (name, feature, trained[name], drift.distance(feature, trained[name]))
        for name, feature in now[largest].features.items()
        if name in trained
    ]
    declared = {feature.name: feature for feature in job.training.dataset.schema.features}
    found.sort(key=lambda each: -(each[3].value if each[3] else 0.0))
    drawn = [
        Interval(label=name, low=0.0, value=far.value, high=far.value, style=_style(far))
        for name, _, _, far in found[:_DRAWN]
        if far
    ]
    return tag(
        "section",
        tag("h2", "Drift"),
        tag("p", f"Span {spans[-1]['name']} against the rows that this model was trained on."),
        tag(
            "div",
            interval_chart("Distance", drawn, x_title="0: the same; 1: nothing in common"),
            class_="figures",
        ),
        table(
            ["feature", "distance", "chance alone", "measure", "mean or commonest, now", "in training"],
            [
                [name, *_cells(far), centre(now, declared[name]), centre(then, declared[name])]
                for name, now, then, far in found
            ],
            numbers=frozenset({1, 2}),
        ),
    )


def _style(far: drift.Distance) -> str:
    return "second" if far.value > far.chance else "first"


def _cells(far: drift.Distance | None) -> list[str]:
    if far is None:
        return ["–", "–", "–"]
    return [formats.fraction(far.value), formats.fraction(far.chance), far.measure]


def centre(feature: FeatureStatistics, declared: Feature) -> str:
    """The mean, as the raw data has it, or the commonest value and its part; – where neither is known."""
    if feature.numeric:
        return _mean(feature.numeric.mean, declared)
    if feature.values and feature.values.values:
        value, count = feature.values.values[0]
        shown = formats.shortened(value, 40) or EMPTY
        return f"{shown} ({formats.percent(count / max(1, feature.present))})"
    return "–"


def _mean(mean: float, declared: Feature) -> str:
    if isinstance(declared, Datetime):
        return shown_value(declared, np.int64(mean))
    return formats.number(mean + declared.offset if isinstance(declared, Numeric) else mean)
