"""Anomalies of a dataset's statistics, by what its schema declares."""

from collections.abc import Callable, Iterator

from beam_jobs.validation.anomalies import Anomaly, Policy, named
from pipeline.data.dataset.statistics import FeatureStatistics, Statistics
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kind_table import KindTable
from pipeline.data.schema.kinds import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics.precision import rounding, way_out

_SHOWN = 5  # classes that a message names


def anomalies(statistics: Statistics, schema: Schema, policy: Policy) -> list[Anomaly]:
    """In the order of splits and features, without those of severity "ignore"."""
    found = (
        anomaly
        for split, measured in statistics.items()
        for feature in schema.features
        for anomaly in _of_feature(split, feature, measured.features[feature.name], policy)
    )
    return [anomaly for anomaly in found if anomaly.severity != "ignore"]


def _of_feature(
    split: str, feature: Feature, measured: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    yield from _missing(split, feature, measured, policy)
    yield from _constant(split, measured, policy)
    for check in _OF_KIND.of(feature):
        yield from check(split, feature, measured, policy)


def _missing(split: str, feature: Feature, measured: FeatureStatistics, policy: Policy) -> Iterator[Anomaly]:
    declared = feature.max_missing_fraction
    kind = "mostly_missing" if declared is None else "missing"
    limit = policy.limit(kind) if declared is None else declared
    if measured.missing_fraction > limit:
        rows = measured.present + measured.missing
        yield Anomaly(
            split=split,
            feature=feature.name,
            kind=kind,
            severity=policy.severity(kind),
            message=f"missing in {measured.missing:,} of {rows:,} rows",
            value=measured.missing_fraction,
            threshold=limit,
        )


def _constant(split: str, measured: FeatureStatistics, policy: Policy) -> Iterator[Anomaly]:
    numeric, values = measured.numeric, measured.values
    same = (numeric and numeric.minimum == numeric.maximum) or (values and values.distinct == 1)
    if measured.present > 1 and same:
        value = f"{numeric.minimum:g}" if numeric else repr(values.values[0][0])
        yield Anomaly(
            split=split,
            feature=measured.name,
            kind="constant",
            severity=policy.severity("constant"),
            message=f"{value} in all {measured.present:,} rows that have a value",
        )


def _rounded(split: str, feature: Numeric, measured: FeatureStatistics, policy: Policy) -> Iterator[Anomaly]:
    error, limit = rounding(feature, measured), policy.limit("rounding")
    if error > limit:
        numeric = measured.numeric
        yield Anomaly(
            split=split,
            feature=feature.name,
            kind="rounding",
            severity=policy.severity("rounding"),
            message=f"{feature.dtype} stores the numbers to {error:.2g} of their standard deviation "
            f"{numeric.std:.3g}, as their mean is {numeric.mean:.6g}: train will refuse it. "
            f"{way_out(feature, numeric)}, or leave it out",
            value=error,
            threshold=limit,
        )


def _out_of_domain(
    split: str, feature: Categorical, measured: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    domain = _domain(feature)
    if domain is None or measured.values is None:
        return
    outside = [(value, count) for value, count in measured.values.values if value not in domain]
    fraction = sum(count for _, count in outside) / max(1, measured.present)
    limit = policy.limit("out_of_domain")
    if fraction > limit:
        yield Anomaly(
            split=split,
            feature=feature.name,
            kind="out_of_domain",
            severity=policy.severity("out_of_domain"),
            message=f"the schema lacks {named(outside, of=measured.present)}",
            value=fraction,
            threshold=limit,
        )


def _domain(feature: Categorical) -> set[str] | None:
    if feature.encoding == "integer":
        return set(map(str, range(feature.size)))
    return set(feature.vocabulary) or None


def _absent_classes(
    split: str, feature: Label, measured: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    if measured.values is None:
        return
    seen = {value for value, _ in measured.values.values}
    absent = [name for name in feature.classes if name not in seen]
    if absent:
        yield Anomaly(
            split=split,
            feature=feature.name,
            kind="absent_class",
            severity=policy.severity("absent_class"),
            message=f"no row of class {', '.join(map(repr, absent[:_SHOWN]))}"
            + (f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else ""),
        )


_Check = Callable[[str, Feature, FeatureStatistics, Policy], Iterator[Anomaly]]

_OF_KIND: KindTable[tuple[_Check, ...]] = KindTable(
    where=__name__,
    tells="what else is checked of a feature's statistics",
    entry="checks of (split, feature, FeatureStatistics, Policy) to anomalies, possibly none: ()",
    entries={
        Numeric: (_rounded,),
        Categorical: (_out_of_domain,),
        Label: (_absent_classes,),
        Image: (),
        Text: (),
        Tokens: (),
        Tensor: (),
        Datetime: (),
    },
)
