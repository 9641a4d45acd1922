"""Chooses the statistics for a metric of a sample, and says when a sample is too small for any."""

import dataclasses
import math
from typing import Protocol

import numpy as np

from pipeline.gate.metrics import Metric
from pipeline.gate.rules import GateRules
from pipeline.gate.statistics.auc import Ranks, Resampled
from pipeline.gate.statistics.estimates import Estimate, Means, Sample
from pipeline.gate.statistics.shares import Shares

_LEAST_OF_CLASS = 10  # positives and negatives: with fewer, the spread of an area is not known
_RARER, _OF_ONE = " of the rarer class", " of one class"


class Measured(Protocol):
    """A metric of the models of a sample."""

    def value(self, model: str) -> Estimate: ...

    def difference(self, model: str, other: str) -> Estimate:
        """Returns `model` less `other`, on the same examples."""


def measure(metric: Metric, sample: Sample, rules: GateRules) -> Measured:
    """Returns exact and fast statistics where rows are unweighted and independent, else general ones."""
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
    """Returns how much better `model` is than `over`, in units of the metric; below 0 where it is worse."""
    return measured.difference(model, over) if metric.is_higher_better else measured.difference(over, model)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Obstacle:
    """The reason why a sample is too small. `examples` like these would do; None where no number is known."""

    reason: str
    examples: int | None


def find_obstacle(metric: Metric, sample: Sample, rules: GateRules, *, least: int) -> Obstacle | None:
    """Returns why the sample cannot be evaluated: too few rows, clusters, or rows of a class; else None.

    Rows and clusters of unequal weight count as their effective number at equal weight.
    """
    found = _of_rows(sample, "", least) or _of_clusters(sample, "", rules)
    return found or (_of_classes(sample, rules) if metric.kind == "area" else None)


def _of_classes(sample: Sample, rules: GateRules) -> Obstacle | None:
    """The rows of the rarer class, and their clusters, limit what is known of an area."""
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
