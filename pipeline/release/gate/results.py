"""What the gate found, for the report, the model card and the receipt. NaN: the examples do not tell."""

import dataclasses
from collections.abc import Mapping, Sequence

from pipeline.release.gate.measured import Measured, improvement
from pipeline.release.gate.metrics import Metric
from pipeline.release.gate.scored import CHALLENGER
from pipeline.release.gate.statistics.estimates import Estimate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Value:
    """The metric of one model, with its two-sided interval and who made it so."""

    value: float
    low: float
    high: float
    method: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """By how much the challenger is better than another model: below 0 where it is worse.

    `p` is two-sided, of no difference. The interval is two-sided.
    """

    value: float
    low: float
    high: float
    p: float
    method: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricResult:
    """One metric on the whole holdout.

    Attributes:
      values: of each model: challenger, champion, anchor, and prior, which knows no features.
      differences: of the challenger to each of the others.
    """

    name: str
    is_higher_better: bool
    values: Mapping[str, Value]
    differences: Mapping[str, Difference]


def value_of(estimate: Estimate, confidence: float) -> Value:
    low, high = estimate.interval(confidence)
    return Value(value=estimate.value, low=low, high=high, method=estimate.method)


def difference_of(estimate: Estimate, confidence: float) -> Difference:
    low, high = estimate.interval(confidence)
    return Difference(value=estimate.value, low=low, high=high, p=estimate.p(), method=estimate.method)


def metric_result(
    metric: Metric, measured: Measured, models: Sequence[str], *, confidence: float
) -> MetricResult:
    others = [model for model in models if model != CHALLENGER]
    return MetricResult(
        name=metric.name,
        is_higher_better=metric.is_higher_better,
        values={model: value_of(measured.value(model), confidence) for model in models},
        differences={
            other: difference_of(improvement(measured, metric, CHALLENGER, over=other), confidence)
            for other in others
        },
    )
