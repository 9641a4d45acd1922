"""The gate: one decision about a challenger, with the numbers on which it rests."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from pipeline.base import files
from pipeline.base.errors import did_you_mean
from pipeline.gate.measurement import Measured, find_obstacle, measure
from pipeline.gate.metrics import METRICS, Metric, metric_of
from pipeline.gate.rules import GateRules, Reuse, rules_error
from pipeline.gate.scores import ANCHOR, CHAMPION, PRIOR, Prepared, Scored, prepare
from pipeline.gate.slices import (
    FAILED,
    OPEN,
    PASSED,
    Check,
    MetricResult,
    Slices,
    baseline_check,
    evaluate_slices,
    floor_checks,
    holdout_check,
    metric_result,
    slice_checks,
)
from pipeline.gate.statistics.estimates import Sample

PROMOTE, REJECT, UNDECIDED = "PROMOTE", "REJECT", "UNDECIDED"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """The decision, and the reasons for it.

    Attributes:
      reasons: a sentence for each check that led to the decision.
      metric: the name of the deciding metric.
      rows: how many rows of the holdout have a weight above 0.
      clusters: the number of clusters of these rows; None where rows are independent.
      distinct: the number of rows without copies of other rows; None where there are no copies.
      is_first: whether there was no champion, so that the model had to beat the floors and the prior.
      checks: all of them, also those that did not lead to the decision.
      examples: how many examples would decide, where the decision is open; None if it is not, or no number is
        known.
    """

    decision: Literal["PROMOTE", "REJECT", "UNDECIDED"]
    reasons: tuple[str, ...]
    task: str
    metric: str
    rows: int
    clusters: int | None
    distinct: int | None
    is_weighted: bool
    is_first: bool
    metrics: tuple[MetricResult, ...]
    slices: Slices
    checks: tuple[Check, ...]
    examples: int | None
    reuse: Reuse
    rules: GateRules

    def to_json(self) -> dict[str, Any]:
        """Returns all of it; NaN becomes None."""
        return files.finite(dataclasses.asdict(self))


def evaluate(scored: Scored, rules: GateRules, *, reuse: int = 0) -> Verdict:
    """Decides whether the challenger takes the champion's place.

    It must be better than the champion, or not worse by the margin, by more than chance; not worse than the
    anchor by the anchor's margin; and worse on no slice. Without a champion it must reach the floors, and
    beat the prior. REJECT where one of these is refuted, UNDECIDED where one is open.

    Args:
      reuse: how many challengers were evaluated before on rows of this holdout.

    Raises:
      InputError: the rules name a metric, a slice or a cluster that was not scored.
    """
    metric = metric_of(scored.task, rules.metric)
    _require_scored(scored, rules)
    whole = scored.rows
    scored, notes = _with_numbers(scored)
    ready = prepare(scored)
    samples = {each.name: ready.sample(each) for each in METRICS[scored.task]}
    measured = {each.name: measure(each, samples[each.name], rules) for each in METRICS[scored.task]}
    results = tuple(
        metric_result(each, measured[each.name], list(ready.predictions), confidence=rules.confidence)
        for each in METRICS[scored.task]
    )
    sample = samples[metric.name]
    slices = evaluate_slices(metric, sample, _texts(scored, ready, rules), rules)
    found = find_obstacle(sample, rules, least=max(rules.least_rows - (whole - scored.rows), 2))
    if found:
        checks = (holdout_check(found),)
    else:
        checks = tuple(_checks(metric, sample, measured[metric.name], results, slices, rules))
    decision = _decision(checks)
    return Verdict(
        decision=decision,
        reasons=(*_reasons(checks, decision), *notes),
        task=scored.task,
        metric=metric.name,
        rows=sample.rows,
        clusters=None if sample.clusters is None or sample.are_copies else sample.units,
        distinct=sample.units if sample.are_copies else None,
        is_weighted=sample.weights is not None,
        is_first=CHAMPION not in sample.columns,
        metrics=results,
        slices=slices,
        checks=checks,
        examples=_examples(checks) if decision == UNDECIDED else None,
        reuse=Reuse.of(reuse, rules),
        rules=rules,
    )


def _with_numbers(scored: Scored) -> tuple[Scored, list[str]]:
    """Returns the rows for which champion and anchor give numbers, and a sentence for each of the two that
    lacks some.

    A model that gives none for most rows, or for most rows of a class, is left out: it must not keep its
    place because nothing can be compared with it.
    """
    notes = []
    for model in (CHAMPION, ANCHOR):
        if model not in scored.predictions or (has_number := scored.has_number(model)).all():
            continue
        classes = np.asarray(scored.labels, np.int64) if scored.classes else np.zeros(scored.rows, np.int64)
        answered = np.bincount(classes, weights=has_number)
        missing = f"the {model} gives no valid number for {(~has_number).sum():,} of {scored.rows:,} rows"
        if (2 * answered >= np.bincount(classes)).all():
            scored, then = scored.take(has_number), "these rows are left out"
        else:
            scored, then = scored.take(np.arange(scored.rows), without=model), "nothing is compared with it"
        notes.append(f"{missing}: {then}")
    return scored, notes


def _checks(
    metric: Metric,
    sample: Sample,
    measured: Measured,
    results: Sequence[MetricResult],
    slices: Slices,
    rules: GateRules,
) -> Iterator[Check]:
    """Yields every check that applies to a holdout that is large enough."""
    allowed = {CHAMPION: rules.allowed_below_champion, ANCHOR: rules.allowed_below_anchor, PRIOR: 0.0}
    for over, margin in allowed.items():
        if over in sample.columns:
            yield baseline_check(metric, measured, over, allowed=margin, rows=sample.rows, rules=rules)
    if CHAMPION in sample.columns:
        yield from slice_checks(slices, rules)
    else:
        yield from floor_checks(results, rules)


def _decision(checks: Sequence[Check]) -> Literal["PROMOTE", "REJECT", "UNDECIDED"]:
    outcomes = {check.outcome for check in checks}
    return REJECT if FAILED in outcomes else UNDECIDED if OPEN in outcomes else PROMOTE


def _reasons(checks: Sequence[Check], decision: str) -> tuple[str, ...]:
    """Returns the reasons of the failed checks, of the open ones, or of all where all are passed."""
    outcome = {REJECT: FAILED, UNDECIDED: OPEN}.get(decision, PASSED)
    return tuple(check.reason for check in checks if check.outcome == outcome)


def _examples(checks: Sequence[Check]) -> int | None:
    """Returns how many examples close every open check."""
    needed = [check.examples for check in checks if check.outcome == OPEN]
    return None if None in needed else max(needed)


def _texts(scored: Scored, ready: Prepared, rules: GateRules) -> Mapping[str, np.ndarray]:
    return {feature: np.asarray(scored.slices[feature])[ready.kept] for feature in rules.slices}


def _require_scored(scored: Scored, rules: GateRules) -> None:
    for feature in rules.slices:
        if feature not in scored.slices:
            known = ", ".join(scored.slices) or "none"
            action = did_you_mean(feature, scored.slices, otherwise="Score it, or leave it out of the rules.")
            raise rules_error("slices", f"'{feature}'", f"a feature that was scored: {known}", action)
    if rules.clustered_by and scored.clusters is None:
        received = f"'{rules.clustered_by}', and no clusters"
        raise rules_error(
            "clustered_by", received, "the cluster of each row", "Score them, or leave it out of the rules."
        )
    for name in rules.floors:
        metric_of(scored.task, name)
