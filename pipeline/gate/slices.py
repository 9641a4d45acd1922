"""Results and checks of the gate: metrics, differences, and slices of a holdout."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from statsmodels.stats.multitest import multipletests

from pipeline.base.errors import printable
from pipeline.gate.measurement import Measured, Obstacle, find_obstacle, improvement, measure
from pipeline.gate.metrics import Metric
from pipeline.gate.rules import GateRules
from pipeline.gate.scores import CHALLENGER, CHAMPION
from pipeline.gate.statistics.estimates import Estimate, Sample, deciding_examples

# --- Results, for the report, the model card and the stage result. NaN: the examples are too few.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Value:
    """The metric of one model, with its two-sided interval and the method of the interval."""

    value: float
    low: float
    high: float
    method: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """The challenger's gain over another model; below 0 where it is worse.

    The interval is two-sided, as is `p`, the p-value of no difference.
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
      values: by model: challenger, champion, anchor, and prior, which knows no features.
      differences: between the challenger and each other model.
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


# --- Checks that a challenger must pass. Each has its result in one sentence with numbers.


PASSED, FAILED, OPEN = "passed", "failed", "open"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """One check. `examples`: how many examples would decide an open check; None where no such number is
    known.
    """

    name: str
    outcome: Literal["passed", "failed", "open"]
    reason: str
    examples: int | None = None


def holdout_check(obstacle: Obstacle) -> Check:
    """Returns the open check of a holdout that is too small."""
    reason = f"the holdout is too small: {obstacle.reason}"
    return Check(name="holdout", outcome=OPEN, reason=reason, examples=obstacle.examples)


def baseline_check(
    metric: Metric, measured: Measured, over: str, *, allowed: float, rows: int, rules: GateRules
) -> Check:
    """Checks that the challenger is better than `over`, or, if `allowed` is above 0, not worse by
    `allowed`.
    """
    estimate = improvement(measured, metric, CHALLENGER, over=over)
    low, high = estimate.interval(rules.confidence)
    outcome = PASSED if low > -allowed else FAILED if high < -allowed else OPEN
    examples = None
    if outcome == OPEN:
        examples = deciding_examples(
            estimate, null=-allowed, rows=rows, confidence=rules.confidence, power=rules.power
        )
    own, others = (measured.value(model).value for model in (CHALLENGER, over))
    reason = (
        f"{metric.name} is {own:.5g}, the {over}'s {others:.5g}: {format_difference(estimate, rules)}; "
        f"{_conclusion(outcome, allowed, examples, rules)}"
    )
    return Check(name=over, outcome=outcome, reason=reason, examples=examples)


def format_difference(estimate: Estimate, rules: GateRules) -> str:
    """Formats a difference, such as `better by 0.0123 (95% interval +0.0051 to +0.0195, p 0.0008)`; + is
    always better.
    """
    low, high = estimate.interval(rules.confidence)
    how = "better" if estimate.value > 0 else "worse"
    amount = f"{how} by {abs(estimate.value):.3g}" if estimate.value else "no difference"
    return f"{amount} ({100 * rules.confidence:g}% interval {low:+.3g} to {high:+.3g}, p {estimate.p():.2g})"


def _conclusion(outcome: str, allowed: float, examples: int | None, rules: GateRules) -> str:
    bound = f"the margin of {allowed:g}" if allowed else "chance"
    if outcome == FAILED:
        return f"that is worse by more than {bound}"
    if outcome == PASSED:
        return f"that is not worse by {bound}" if allowed else "that is better by more than chance"
    if examples is None:
        return "undecided, and no number of examples is known that would decide"
    return (
        f"undecided: about {examples:,} examples would decide with a chance of {100 * rules.power:g}%, "
        "if this is the true difference"
    )


def floor_checks(results: Sequence[MetricResult], rules: GateRules) -> Iterator[Check]:
    """Checks that a first model reaches every floor."""
    named = {result.name: result for result in results}
    for name, floor in rules.floors.items():
        own, is_least = named[name].values[CHALLENGER].value, named[name].is_higher_better
        reached = own >= floor if is_least else own <= floor
        reason = f"{name} is {own:.5g}; the floor is {floor:g} or {'more' if is_least else 'less'}"
        yield Check(name=f"floor of {name}", outcome=PASSED if reached else FAILED, reason=reason)


KEPT, REGRESSED, NOT_EVALUATED = "no regression", "regression", "not evaluated"

# --- Slices: the challenger must not be worse on any of them.

_SMALL_LISTED = 50  # listed slices of a feature that have too few rows: ids have millions
_NAME = 80  # characters of a value in a sentence


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceResult:
    """The deciding metric on the rows where `feature` is `value`.

    Attributes:
      values: those of challenger and champion; empty where there are too few rows.
      difference: how much better the challenger is; None where the slice was not evaluated.
      p: the p-value of the hypothesis that the challenger is worse by no more than the slice's margin:
        one-sided and doubled, because intervals have two sides; None as above.
      p_holm: the same, corrected for the number of slices that were evaluated.
      reason: why it was not evaluated, or what was found.
    """

    feature: str
    value: str
    rows: int
    verdict: Literal["no regression", "regression", "not evaluated"]
    reason: str
    values: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    difference: Difference | None = None
    p: float | None = None
    p_holm: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slices:
    """Results of slices. `left_out` counts, by feature, slices that are too small and not in `results`."""

    results: tuple[SliceResult, ...]
    left_out: Mapping[str, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Part:
    """Rows of one slice; `rows` are indices."""

    feature: str
    value: str
    rows: np.ndarray


def evaluate_slices(
    metric: Metric, sample: Sample, texts: Mapping[str, np.ndarray], rules: GateRules
) -> Slices:
    """Evaluates every slice of the rules' features, with Holm's correction over all of them.

    S. Holm, "A simple sequentially rejective multiple test procedure" (1979): the chance that any slice
    without a regression is reported stays below 1 - confidence, however many there are.

    Args:
      texts: feature → its value in each row of the sample, text [n].
    """
    parts = [part for feature in rules.slices for part in _parts(feature, texts[feature])]
    small = [part for part in parts if len(part.rows) < rules.least_slice]
    listed = [part for feature in rules.slices for part in _largest(small, feature)]
    large = [part for part in parts if len(part.rows) >= rules.least_slice]
    evaluated = [_evaluated(metric, part, sample, rules) for part in large]
    return Slices(
        results=(*_with_holm(evaluated, rules), *(_too_small(part, rules) for part in listed)),
        left_out={feature: _count(small, feature) - _count(listed, feature) for feature in rules.slices},
    )


def slice_checks(slices: Slices, rules: GateRules) -> Iterator[Check]:
    """Returns a failed check for each regression, or one passed check for all slices."""
    regressed = [found for found in slices.results if found.verdict == REGRESSED]
    for found in regressed:
        yield Check(name="slices", outcome=FAILED, reason=found.reason)
    if rules.slices and not regressed:
        kept = sum(found.verdict == KEPT for found in slices.results)
        skipped = len(slices.results) - kept + sum(slices.left_out.values())
        features = ", ".join(rules.slices)
        reason = f"slices of {features} without a regression: {kept:,}; not evaluated: {skipped:,}"
        yield Check(name="slices", outcome=PASSED, reason=reason)


def _parts(feature: str, texts: np.ndarray) -> Iterator[_Part]:
    values, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])
    return (
        _Part(feature=feature, value=str(value), rows=own) for value, own in zip(values, rows, strict=True)
    )


def _largest(small: Sequence[_Part], feature: str) -> Sequence[_Part]:
    own = [part for part in small if part.feature == feature]
    return sorted(own, key=lambda part: -len(part.rows))[:_SMALL_LISTED]


def _count(parts: Sequence[_Part], feature: str) -> int:
    return sum(part.feature == feature for part in parts)


def _too_small(part: _Part, rules: GateRules) -> SliceResult:
    return SliceResult(
        feature=part.feature,
        value=part.value,
        rows=len(part.rows),
        verdict=NOT_EVALUATED,
        reason=f"rows: {len(part.rows):,}; {rules.least_slice:,} are needed",
    )


def _evaluated(metric: Metric, part: _Part, sample: Sample, rules: GateRules) -> SliceResult:
    """Evaluates one slice that has enough rows, before Holm's correction."""
    own = sample.take(part.rows)
    measured = measure(metric, own, rules)
    models = [model for model in (CHALLENGER, CHAMPION) if model in own.columns]
    result = SliceResult(
        feature=part.feature,
        value=part.value,
        rows=own.rows,
        verdict=NOT_EVALUATED,
        reason="there is no champion to compare with",
        values={model: value_of(measured.value(model), rules.confidence) for model in models},
    )
    found = find_obstacle(own, rules, least=rules.least_slice)
    if found or CHAMPION not in models:
        return dataclasses.replace(result, reason=found.reason) if found else result
    estimate = improvement(measured, metric, CHALLENGER, over=CHAMPION)
    return dataclasses.replace(
        result,
        difference=difference_of(estimate, rules.confidence),
        p=min(1.0, 2 * estimate.tails(-rules.slice_margin)[0]),
        reason=format_difference(estimate, rules),
    )


def _with_holm(evaluated: Sequence[SliceResult], rules: GateRules) -> Iterator[SliceResult]:
    raw = [found.p for found in evaluated if found.p is not None]
    corrected = iter(multipletests(raw, method="holm")[1] if raw else ())
    for found in evaluated:
        yield found if found.p is None else _corrected(found, float(next(corrected)), len(raw), rules)


def _corrected(found: SliceResult, p_holm: float, number: int, rules: GateRules) -> SliceResult:
    verdict = REGRESSED if p_holm < 1 - rules.confidence else KEPT
    name = printable(found.value if len(found.value) <= _NAME else f"{found.value[:_NAME]}…")
    allowed = f"; a slice may be worse by {rules.slice_margin:g}" if rules.slice_margin else ""
    reason = (
        f"slice {found.feature} = '{name}' ({found.rows:,} rows): {found.reason}; "
        f"p {p_holm:.2g} after Holm's correction for {number:,} slices{allowed}"
    )
    return dataclasses.replace(found, verdict=verdict, p_holm=p_holm, reason=reason)
