"""Chooses the statistics for a metric of a sample, and says when a sample is too small for any."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from pipeline.gate.metrics import Metric
from pipeline.gate.rules import GateRules
from pipeline.gate.statistics.auc import Ranks, Resampled
from pipeline.gate.statistics.estimates import Estimate, Means, Sample
from pipeline.gate.statistics.shares import Shares

# With fewer rows of a class, its share in the holdout is due to chance, and no spread shows it.
_LEAST_OF_LABEL = 10
_BY_CHANCE = 2  # if twice the rows are expected, 99.5% of all holdouts have enough (Poisson)


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
            if is_plain or (sample.are_copies and sample.weights is None)
            else Resampled(sample=sample, resamples=rules.resamples, seed=rules.seed)
        )
    if metric.kind == "share":
        return Shares(sample=sample) if is_plain else Means(sample=sample, bounds=(0.0, 1.0))
    # What is better where it is higher is a fraction: a mean of ranks' worth, or of the answers of a row.
    return Means(sample=sample, bounds=(0.0, 1.0 if metric.is_higher_better else np.inf))


def improvement(measured: Measured, metric: Metric, model: str, over: str) -> Estimate:
    """Returns by how much `model` is better than `over`, in units of the metric; below 0 if it is worse."""
    return measured.difference(model, over) if metric.is_higher_better else measured.difference(over, model)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Obstacle:
    """The reason why a sample is too small. `examples` says how many would be enough; None where no number is
    known.
    """

    reason: str
    examples: int | None


def find_obstacle(sample: Sample, rules: GateRules, *, least: int) -> Obstacle | None:
    """Returns why the sample cannot be evaluated: too few rows, clusters, or rows of a label; else None.

    Rows and clusters of unequal weight count as their effective number at equal weight; copies of a row count
    as one.
    """
    found = _of_rows(sample, "", least) or _of_clusters(sample, "", rules)
    return found or (None if sample.labels is None else _of_labels(sample, rules))


def _of_labels(sample: Sample, rules: GateRules) -> Obstacle | None:
    """Looks for a label that too few rows have.

    Where labels have not arrived yet, all are "no". On such rows, a model that says "no" more often looks
    better for certain: nothing varies, so the spread of the rows does not show the error.
    """
    for count, whose, number, rate in sorted(_labels(sample)):
        is_plain = sample.weights is None and sample.clusters is None
        if is_plain and count >= _LEAST_OF_LABEL:
            return None  # the other labels have more rows
        is_other = number == _OTHERS
        own = sample.take(sample.labels != _frequent(sample) if is_other else sample.labels == number)
        found = _of_rows(own, whose, _LEAST_OF_LABEL) or _of_clusters(own, whose, rules)
        if found:
            share, needed = (count / sample.rows, found.examples) if count else (rate, _LEAST_OF_LABEL)
            return dataclasses.replace(
                found, examples=math.ceil(needed * _BY_CHANCE / share) if share else None
            )
    return None


_OTHERS = -1


def _labels(sample: Sample) -> Iterator[tuple[int, str, int, float]]:
    """Yields each label that must occur: its rows, its name, the label or _OTHERS, and its rate in training.

    Classes that are rare in training may be absent if there are many. A rate of 0 means that it is not known.
    """
    counts = np.bincount(sample.labels, minlength=len(sample.rates)).tolist()
    if len(sample.rates) != 2:
        others = sample.rows - counts[_frequent(sample)]
        yield others, " that differ from the most frequent label", _OTHERS, 0.0
    for number, (name, rate) in enumerate(sample.rates.items()):
        is_expected = math.isnan(rate) or rate * sample.rows >= _LEAST_OF_LABEL * _BY_CHANCE
        if len(sample.rates) == 2 or is_expected:
            yield counts[number], f" of class '{name}'", number, 0.0 if math.isnan(rate) else rate


def _frequent(sample: Sample) -> int:
    return int(np.bincount(sample.labels).argmax())


def _of_rows(sample: Sample, whose: str, least: int) -> Obstacle | None:
    number = round(sample.effective_rows)
    copies = " that are no copies" if sample.are_copies else ""
    how = "" if sample.weights is None else ", counted at equal weight"
    return _too_few(f"rows{whose}{copies}{how}", number, least, sample) if number < least else None


def _of_clusters(sample: Sample, whose: str, rules: GateRules) -> Obstacle | None:
    if sample.clusters is None or sample.are_copies:
        return None
    number = round(sample.effective_clusters)
    how = "" if number == sample.units else ", counted at equal weight"
    least = rules.least_clusters
    return _too_few(f"clusters{whose}{how}", number, least, sample) if number < least else None


def _too_few(what: str, number: int, least: int, sample: Sample) -> Obstacle:
    examples = math.ceil(sample.rows * least / number) if number else None
    return Obstacle(reason=f"{what}: {number:,}; {least:,} are needed", examples=examples)
