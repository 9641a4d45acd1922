"""Which statistics a metric of a sample takes, and when there are none."""

import dataclasses
import math
from typing import Protocol

import numpy as np

from pipeline.gate.metrics import Metric
from pipeline.gate.rules import GateRules
from pipeline.gate.statistics.auc import Ranks, Resampled
from pipeline.gate.statistics.estimates import Estimate, Means, Sample
from pipeline.gate.statistics.shares import Shares

_LEAST_OF_CLASS = 10  # positives and negatives: of fewer, an area's spread is not known
_RARER, _OF_ONE = " of the rarer class", " of one class"


class Measured(Protocol):
    """The metric of the models of a sample."""

    def value(self, model: str) -> Estimate: ...

    def difference(self, model: str, other: str) -> Estimate:
        """`model` less `other`, on the same examples."""


def measure(metric: Metric, sample: Sample, rules: GateRules) -> Measured:
    """The exact and fast where every row counts the same and stands alone, else what holds for all rows."""
    is_plain = sample.weights is None and sample.clusters is None
    if metric.kind == "area":
        return (
            Ranks(sample=sample)
            if is_plain
            else Resampled(sample=sample, resamples=rules.resamples, seed=rules.seed)
        )
    if metric.kind == "share":
        return Shares(sample=sample) if is_plain else Means(sample=sample, bounds=(0.0, 1.0))
    return Means(sample=sample, bounds=(0.0, np.inf))


def improvement(measured: Measured, metric: Metric, model: str, over: str) -> Estimate:
    """By how much `model` is better than `over`, in units of the metric: below 0 where it is worse."""
    return measured.difference(model, over) if metric.is_higher_better else measured.difference(over, model)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Obstacle:
    """Why a sample tells too little; `examples` like these would be enough, None where no number is."""

    reason: str
    examples: int | None


def obstacle(metric: Metric, sample: Sample, rules: GateRules, *, least: int) -> Obstacle | None:
    """What keeps the sample from being judged: too few rows, clusters, or rows of a class.

    Rows and clusters count as many as would tell as much if all weighed the same.
    """
    found = _of_rows(sample, "", least) or _of_clusters(sample, "", rules)
    return found or (_of_classes(sample, rules) if metric.kind == "area" else None)


def _of_classes(sample: Sample, rules: GateRules) -> Obstacle | None:
    """An area is told by the rows of the rarer class: by as many of them, and by their clusters."""
    number = min(int(sample.positive.sum()), int((~sample.positive).sum()))
    if number < _LEAST_OF_CLASS:
        return _too_few(f"rows{_RARER}", number, _LEAST_OF_CLASS, sample)
    for of_class in (sample.take(sample.positive), sample.take(~sample.positive)):
        found = _of_rows(of_class, _OF_ONE, _LEAST_OF_CLASS) or _of_clusters(of_class, _OF_ONE, rules)
        if found:
            more = found.examples and math.ceil(found.examples * sample.rows / of_class.rows)
            return dataclasses.replace(found, examples=more)
    return None


def _of_rows(sample: Sample, whose: str, least: int) -> Obstacle | None:
    number = round(sample.effective_rows)
    how = "" if sample.weights is None else ", counted at equal weight"
    return _too_few(f"rows{whose}{how}", number, least, sample) if number < least else None


def _of_clusters(sample: Sample, whose: str, rules: GateRules) -> Obstacle | None:
    if sample.clusters is None:
        return None
    number = round(sample.effective_clusters)
    how = "" if number == sample.units else ", counted at equal weight"
    least = rules.least_clusters
    return _too_few(f"clusters{whose}{how}", number, least, sample) if number < least else None


def _too_few(what: str, number: int, least: int, sample: Sample) -> Obstacle:
    examples = math.ceil(sample.rows * least / number) if number else None
    return Obstacle(reason=f"{what}: {number:,}; {least:,} are needed", examples=examples)
