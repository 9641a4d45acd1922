"""The questions that a challenger must pass, each answered in one sentence with its numbers."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Literal

from pipeline.release.gate.measured import Measured, Obstacle, improvement
from pipeline.release.gate.metrics import Metric
from pipeline.release.gate.results import MetricResult
from pipeline.release.gate.rules import GateRules
from pipeline.release.gate.scored import CHALLENGER
from pipeline.release.gate.statistics.estimates import Estimate
from pipeline.release.gate.statistics.power import deciding_examples

PASSED, FAILED, OPEN = "passed", "failed", "open"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """One question. `examples`: how many would close an open one; None where no number is known to."""

    name: str
    outcome: Literal["passed", "failed", "open"]
    reason: str
    examples: int | None = None


def of_holdout(obstacle: Obstacle) -> Check:
    """What is said of a holdout that tells too little."""
    reason = f"the holdout tells too little: {obstacle.reason}"
    return Check(name="holdout", outcome=OPEN, reason=reason, examples=obstacle.examples)


def against(
    metric: Metric, measured: Measured, over: str, *, allowed: float, rows: int, rules: GateRules
) -> Check:
    """Is the challenger better than `over`? Where `allowed` is above 0: is it not worse by that or more?"""
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
        f"{metric.name} is {own:.5g}, the {over}'s {others:.5g}: {difference_in_words(estimate, rules)}; "
        f"{_conclusion(outcome, allowed, examples, rules)}"
    )
    return Check(name=over, outcome=outcome, reason=reason, examples=examples)


def difference_in_words(estimate: Estimate, rules: GateRules) -> str:
    """`better by 0.0123 (95% interval +0.0051 to +0.0195, p 0.0008)`; + is better whatever the metric."""
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


def of_floors(results: Sequence[MetricResult], rules: GateRules) -> Iterator[Check]:
    """Does a first model reach every floor?"""
    named = {result.name: result for result in results}
    for name, floor in rules.floors.items():
        own, is_least = named[name].values[CHALLENGER].value, named[name].is_higher_better
        reached = own >= floor if is_least else own <= floor
        outcome = PASSED if reached else FAILED if own == own else OPEN  # NaN: it could not be measured
        found = "not known on this holdout" if outcome == OPEN else f"{own:.5g}"
        reason = f"{name} is {found}; the floor is {floor:g} or {'more' if is_least else 'less'}"
        yield Check(name=f"floor of {name}", outcome=outcome, reason=reason)
