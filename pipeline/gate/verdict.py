"""The gate: one decision about a challenger, with the numbers that it rests on."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from pipeline.base.errors import InputError, did_you_mean
from pipeline.gate import slices as slices_lib
from pipeline.gate.measurement import Measured, measure, obstacle
from pipeline.gate.metrics import METRICS, Metric, metric_of
from pipeline.gate.rules import GateRules, Reuse
from pipeline.gate.scores import ANCHOR, CHAMPION, PRIOR, Prepared, Scored, prepared
from pipeline.gate.slices import (
    FAILED,
    OPEN,
    Check,
    MetricResult,
    Slices,
    judge_slices,
    metric_result,
    of_slices,
)
from pipeline.gate.statistics.estimates import Sample

PROMOTE, REJECT, UNDECIDED = "PROMOTE", "REJECT", "UNDECIDED"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was decided, and why.

    Attributes:
      reasons: a sentence for each check that led to the decision.
      metric: the name of the one that decides.
      rows, clusters: of the holdout that count, which are those of a weight above 0; clusters is None where
        rows are independent.
      is_first: whether there was no champion, so that floors and the prior were to beat.
      checks: all questions, those too that did not lead to the decision.
      examples: of an open decision, how many would make it; None where it is made, or none are known to.
    """

    decision: Literal["PROMOTE", "REJECT", "UNDECIDED"]
    reasons: tuple[str, ...]
    task: str
    metric: str
    rows: int
    clusters: int | None
    is_weighted: bool
    is_first: bool
    metrics: tuple[MetricResult, ...]
    slices: Slices
    checks: tuple[Check, ...]
    examples: int | None
    reuse: Reuse
    rules: GateRules

    def to_json(self) -> dict[str, Any]:
        """All of it; a number that the examples do not tell is None."""
        return _told(dataclasses.asdict(self))


def judge(scored: Scored, rules: GateRules, *, reuse: int = 0) -> Verdict:
    """Whether the challenger takes the champion's place.

    It must be better than the champion, or not worse by the margin, by more than chance; not worse than the
    anchor by the anchor's margin; and worse on no slice. Without a champion it must reach the floors, and
    beat the prior. REJECT where one of these is refuted, UNDECIDED where one is open.

    Args:
      reuse: how many challengers were judged before by rows of this holdout.

    Raises:
      InputError: the rules name a metric, a slice or a cluster that was not scored.
    """
    metric = metric_of(scored.task, rules.metric)
    _require_scored(scored, rules)
    ready = prepared(scored)
    samples = {each.name: ready.sample(each) for each in METRICS[scored.task]}
    measured = {each.name: measure(each, samples[each.name], rules) for each in METRICS[scored.task]}
    results = tuple(
        metric_result(each, measured[each.name], list(ready.predictions), confidence=rules.confidence)
        for each in METRICS[scored.task]
    )
    sample = samples[metric.name]
    slices = judge_slices(metric, sample, _texts(scored, ready, rules), rules)
    asked = tuple(_checks(metric, sample, measured[metric.name], results, slices, rules))
    decision = _decision(asked)
    return Verdict(
        decision=decision,
        reasons=_reasons(asked, decision),
        task=scored.task,
        metric=metric.name,
        rows=sample.rows,
        clusters=None if sample.clusters is None else sample.units,
        is_weighted=sample.weights is not None,
        is_first=CHAMPION not in sample.columns,
        metrics=results,
        slices=slices,
        checks=asked,
        examples=_examples(asked) if decision == UNDECIDED else None,
        reuse=Reuse.of(reuse, rules),
        rules=rules,
    )


def _checks(
    metric: Metric,
    sample: Sample,
    measured: Measured,
    results: Sequence[MetricResult],
    slices: Slices,
    rules: GateRules,
) -> Iterator[Check]:
    """Every question that applies. A holdout that tells too little answers none."""
    found = obstacle(metric, sample, rules, least=rules.least_rows)
    if found:
        yield slices_lib.holdout_checks(found)
        return
    allowed = {CHAMPION: rules.allowed_below_champion, ANCHOR: rules.allowed_below_anchor, PRIOR: 0.0}
    for over, margin in allowed.items():
        if over in sample.columns:
            yield slices_lib.baseline_checks(
                metric, measured, over, allowed=margin, rows=sample.rows, rules=rules
            )
    if CHAMPION in sample.columns:
        yield from of_slices(slices, rules)
    else:
        yield from slices_lib.floor_checks(results, rules)


def _decision(asked: Sequence[Check]) -> Literal["PROMOTE", "REJECT", "UNDECIDED"]:
    outcomes = {check.outcome for check in asked}
    return REJECT if FAILED in outcomes else UNDECIDED if OPEN in outcomes else PROMOTE


def _reasons(asked: Sequence[Check], decision: str) -> tuple[str, ...]:
    """Of the checks that failed, of those that are open, or of all that were passed."""
    told = {REJECT: (FAILED,), UNDECIDED: (OPEN,)}.get(decision)
    return tuple(check.reason for check in asked if told is None or check.outcome in told)


def _examples(asked: Sequence[Check]) -> int | None:
    """What every open check needs."""
    needed = [check.examples for check in asked if check.outcome == OPEN]
    return None if None in needed else max(needed)


def _texts(scored: Scored, ready: Prepared, rules: GateRules) -> Mapping[str, np.ndarray]:
    return {feature: np.asarray(scored.slices[feature])[ready.kept] for feature in rules.slices}


def _require_scored(scored: Scored, rules: GateRules) -> None:
    for feature in rules.slices:
        if feature not in scored.slices:
            known = ", ".join(scored.slices) or "none"
            action = did_you_mean(feature, scored.slices, otherwise="Score it, or leave it out of the rules.")
            raise _error("slices", f"'{feature}'", f"a feature that was scored: {known}", action)
    if rules.clustered_by and scored.clusters is None:
        received = f"'{rules.clustered_by}', and no clusters"
        raise _error(
            "clustered_by", received, "the cluster of each row", "Score them, or leave it out of the rules."
        )
    for name in rules.floors:
        metric_of(scored.task, name)


def _error(name: str, received: str, expected: str, action: str) -> InputError:
    return InputError(f"rule '{name}' of the gate", received=received, expected=expected, action=action)


def _told(found: Any) -> Any:
    """The same with None in place of numbers that JSON has not."""
    if isinstance(found, Mapping):
        return {key: _told(value) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [_told(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found
