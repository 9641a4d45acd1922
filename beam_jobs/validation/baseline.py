"""Anomalies of a dataset's statistics, compared with those of an earlier dataset."""

import math
from collections.abc import Iterator

from beam_jobs.validation.anomalies import Anomaly, Policy, named
from pipeline.data.dataset.statistics import FeatureStatistics, SplitStatistics, Statistics
from pipeline.data.statistics import drift

_DEVIATIONS = 4.0  # how far chance may move a fraction


def anomalies(statistics: Statistics, baseline: Statistics, policy: Policy) -> list[Anomaly]:
    """Of every split that both datasets have, without those of severity "ignore"."""
    found = (
        anomaly
        for split, now in statistics.items()
        if split in baseline
        for anomaly in _of_split(split, now, baseline[split], policy)
    )
    return [anomaly for anomaly in found if anomaly.severity != "ignore"]


def _of_split(split: str, now: SplitStatistics, before: SplitStatistics, policy: Policy) -> Iterator[Anomaly]:
    yield from _examples(split, now, before, policy)
    for name in {**before.features, **now.features}:
        if name not in now.features or name not in before.features:
            yield _one_sided(split, name, policy, added=name in now.features)
            continue
        pair = now.features[name], before.features[name]
        yield from _missing_jump(split, *pair, policy)
        yield from _new_values(split, *pair, policy)
        yield from _drift(split, *pair, policy)


def _examples(split: str, now: SplitStatistics, before: SplitStatistics, policy: Policy) -> Iterator[Anomaly]:
    change = abs(now.examples - before.examples) / max(1, before.examples)
    if change > policy.limit("examples"):
        yield Anomaly(
            split=split,
            feature="",
            kind="examples",
            severity=policy.severity("examples"),
            message=f"{now.examples:,} rows in place of {before.examples:,}",
            value=change,
            threshold=policy.limit("examples"),
        )


def _one_sided(split: str, name: str, policy: Policy, *, added: bool) -> Anomaly:
    return Anomaly(
        split=split,
        feature=name,
        kind="feature_set",
        severity=policy.severity("feature_set"),
        message="not in the baseline" if added else "only in the baseline",
    )


def _missing_jump(
    split: str, now: FeatureStatistics, before: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    rise = now.missing_fraction - before.missing_fraction
    limit = max(policy.limit("missing_jump"), _chance_of_missing(now, before))
    if rise > limit:
        yield Anomaly(
            split=split,
            feature=now.name,
            kind="missing_jump",
            severity=policy.severity("missing_jump"),
            message=f"missing in {now.missing_fraction:.2%} of rows, {before.missing_fraction:.2%} before",
            value=rise,
            threshold=limit,
        )


def _chance_of_missing(now: FeatureStatistics, before: FeatureStatistics) -> float:
    """How far apart the fractions of two samples of the same data may lie by chance."""
    n, m = now.present + now.missing, before.present + before.missing
    pooled = (now.missing + before.missing) / max(1, n + m)
    return _DEVIATIONS * math.sqrt(pooled * (1 - pooled) * (1 / max(1, n) + 1 / max(1, m)))


def _new_values(
    split: str, now: FeatureStatistics, before: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    if not now.values or not before.values or not before.values.complete:
        return
    known = {value for value, _ in before.values.values}
    new = [(value, count) for value, count in now.values.values if value not in known]
    fraction = sum(count for _, count in new) / max(1, now.present)
    if fraction > policy.limit("new_values"):
        yield Anomaly(
            split=split,
            feature=now.name,
            kind="new_values",
            severity=policy.severity("new_values"),
            message=f"the baseline lacks {named(new, of=now.present)}",
            value=fraction,
            threshold=policy.limit("new_values"),
        )


def _drift(
    split: str, now: FeatureStatistics, before: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    distance = drift.distance(now, before)
    if distance is None:
        return
    limit = max(policy.limit("drift"), distance.chance)
    if distance.value > limit:
        where = f", most at {distance.where!r}" if distance.where else ""
        yield Anomaly(
            split=split,
            feature=now.name,
            kind="drift",
            severity=policy.severity("drift"),
            message=f"{distance.measure} distance {distance.value:.3g} from the baseline{where}",
            value=distance.value,
            threshold=limit,
        )
