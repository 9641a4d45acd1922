"""Which statistics a metric of a sample takes, and when there are none."""

import dataclasses
import math
from typing import Protocol

import numpy as np

from pipeline.release.gate.metrics import Metric
from pipeline.release.gate.rules import GateRules
from pipeline.release.gate.statistics.estimates import Estimate
from pipeline.release.gate.statistics.means import Means
from pipeline.release.gate.statistics.ranks import Ranks
from pipeline.release.gate.statistics.resampling import Resampled
from pipeline.release.gate.statistics.sample import Sample
from pipeline.release.gate.statistics.shares import Shares

_LEAST_OF_CLASS = 10  # positives and negatives: of fewer, an area's spread is not known


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
    """What keeps the sample from being judged: too few rows, clusters, or rows of a class."""
    effective = round(sample.effective_rows)
    if effective < least:
        what = "rows" if sample.weights is None else "rows, counted at equal weight"
        return _too_few(what, effective, least, sample)
    if sample.clusters is not None and sample.units < rules.least_clusters:
        return _too_few("clusters", sample.units, rules.least_clusters, sample)
    if metric.kind == "area":
        fewest = int(min(sample.positive.sum(), (~sample.positive).sum()))
        if fewest < _LEAST_OF_CLASS:
            return _too_few("rows of the rarer class", fewest, _LEAST_OF_CLASS, sample)
    return None


def _too_few(what: str, number: int, least: int, sample: Sample) -> Obstacle:
    examples = math.ceil(sample.rows * least / number) if number else None
    return Obstacle(reason=f"{what}: {number:,}; {least:,} are needed", examples=examples)
