"""Slices of a holdout, each value of a feature by itself: is the challenger worse on one of them?"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from statsmodels.stats.multitest import multipletests

from pipeline.data.printable import printable
from pipeline.release.gate.checks import FAILED, PASSED, Check, difference_in_words
from pipeline.release.gate.measured import improvement, measure, obstacle
from pipeline.release.gate.metrics import Metric
from pipeline.release.gate.results import Difference, Value, difference_of, value_of
from pipeline.release.gate.rules import GateRules
from pipeline.release.gate.scored import CHALLENGER, CHAMPION
from pipeline.release.gate.statistics.sample import Sample

KEPT, REGRESSED, NOT_EVALUATED = "no regression", "regression", "not evaluated"

_SMALL_SHOWN = 50  # slices of a feature that have too few rows: ids have millions
_NAME = 80  # characters of a value that a sentence shows


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceResult:
    """The metric that decides, on the rows where `feature` is `value`.

    Attributes:
      values: of challenger and champion; none where there are too few rows.
      difference: by how much the challenger is better; None where it was not evaluated.
      p: of the challenger being worse by no more than the slice's margin: one-sided and doubled, as
        intervals have two sides; None as above.
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
    """`left_out`: of each feature the number of slices with too few rows that are not in `results`."""

    results: tuple[SliceResult, ...]
    left_out: Mapping[str, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Part:
    """Rows of one slice; `rows` are indices."""

    feature: str
    value: str
    rows: np.ndarray


def judge_slices(metric: Metric, sample: Sample, texts: Mapping[str, np.ndarray], rules: GateRules) -> Slices:
    """Every slice of the rules' features, with Holm's correction over all that can be evaluated.

    S. Holm, "A simple sequentially rejective multiple test procedure" (1979): the chance that any slice
    without a regression is blamed stays below 1 - confidence, however many there are.

    Args:
      texts: feature → its value in each row of the sample, text [n].
    """
    parts = [part for feature in rules.slices for part in _parts(feature, texts[feature])]
    small = [part for part in parts if len(part.rows) < rules.least_slice]
    shown = [part for feature in rules.slices for part in _largest(small, feature)]
    large = [part for part in parts if len(part.rows) >= rules.least_slice]
    evaluated = [_evaluated(metric, part, sample, rules) for part in large]
    return Slices(
        results=(*_with_holm(evaluated, rules), *(_too_small(part, rules) for part in shown)),
        left_out={feature: _count(small, feature) - _count(shown, feature) for feature in rules.slices},
    )


def of_slices(slices: Slices, rules: GateRules) -> Iterator[Check]:
    """One check for each regression; one for all slices where there is none."""
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
    return sorted(own, key=lambda part: -len(part.rows))[:_SMALL_SHOWN]


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
    """One slice of enough rows, before Holm's correction."""
    own = sample.take(part.rows)
    measured, models = (
        measure(metric, own, rules),
        [model for model in (CHALLENGER, CHAMPION) if model in own.columns],
    )
    result = SliceResult(
        feature=part.feature,
        value=part.value,
        rows=own.rows,
        verdict=NOT_EVALUATED,
        reason="there is no champion to compare with",
        values={model: value_of(measured.value(model), rules.confidence) for model in models},
    )
    found = obstacle(metric, own, rules, least=rules.least_slice)
    if found or CHAMPION not in models:
        return dataclasses.replace(result, reason=found.reason) if found else result
    estimate = improvement(measured, metric, CHALLENGER, over=CHAMPION)
    return dataclasses.replace(
        result,
        difference=difference_of(estimate, rules.confidence),
        p=min(1.0, 2 * estimate.tails(-rules.slice_margin)[0]),
        reason=difference_in_words(estimate, rules),
    )


def _with_holm(evaluated: Sequence[SliceResult], rules: GateRules) -> Iterator[SliceResult]:
    raw = [found.p for found in evaluated if found.p is not None]
    corrected = iter(multipletests(raw, method="holm")[1] if raw else ())
    for found in evaluated:
        yield found if found.p is None else _judged(found, float(next(corrected)), len(raw), rules)


def _judged(found: SliceResult, p_holm: float, number: int, rules: GateRules) -> SliceResult:
    verdict = REGRESSED if p_holm < 1 - rules.confidence else KEPT
    name = printable(found.value if len(found.value) <= _NAME else f"{found.value[:_NAME]}…")
    allowed = f"; a slice may be worse by {rules.slice_margin:g}" if rules.slice_margin else ""
    reason = (
        f"slice {found.feature} = '{name}' ({found.rows:,} rows): {found.reason}; "
        f"p {p_holm:.2g} after Holm's correction for {number:,} slices{allowed}"
    )
    return dataclasses.replace(found, verdict=verdict, p_holm=p_holm, reason=reason)
