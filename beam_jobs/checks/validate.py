"""Anomalies of a dataset's statistics, compared with those of an earlier dataset."""

import dataclasses
import datetime
import math
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from beam_jobs.checks import anomalies as anomalies_lib
from beam_jobs.checks.anomalies import Anomaly, Policy, format_values
from pipeline.data.dataset import window
from pipeline.data.dataset.manifest import TRAIN
from pipeline.data.dataset.statistics import FeatureStatistics, SplitStatistics, Statistics
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import (
    Categorical,
    Categories,
    Datetime,
    FeatureTypeTable,
    Image,
    Label,
    Numeric,
    Tensor,
    Text,
    Tokens,
)
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import drift, loading
from pipeline.data.statistics.drift import most_lost, rounding, way_out
from pipeline.data.statistics.sentinels import are_sentinels
from pipeline.report import formats

_DEVIATIONS = 4.0  # standard deviations by which chance may move a fraction


def baseline_anomalies(statistics: Statistics, baseline: Statistics, policy: Policy) -> list[Anomaly]:
    """Returns anomalies of every split that both datasets have, without those of severity "ignore"."""
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
            message = "not in the baseline" if name in now.features else "only in the baseline"
            yield policy.anomaly("feature_set", split=split, feature=name, message=message)
            continue
        pair = now.features[name], before.features[name]
        yield from _missing_jump(split, *pair, policy)
        yield from _new_values(split, *pair, policy)
        yield from _drift(split, *pair, policy)


def _examples(split: str, now: SplitStatistics, before: SplitStatistics, policy: Policy) -> Iterator[Anomaly]:
    change = abs(now.examples - before.examples) / max(1, before.examples)
    message = f"{now.examples:,} rows in place of {before.examples:,}"
    yield from policy.above_limit("examples", change, split=split, message=message)


def _missing_jump(
    split: str, now: FeatureStatistics, before: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    yield from policy.above_limit(
        "missing_jump",
        now.missing_fraction - before.missing_fraction,
        limit=max(policy.limit("missing_jump"), _chance_of_missing(now, before)),
        split=split,
        feature=now.name,
        message=f"missing in {now.missing_fraction:.2%} of rows, {before.missing_fraction:.2%} before",
    )


def _chance_of_missing(now: FeatureStatistics, before: FeatureStatistics) -> float:
    """Returns how far apart the fractions of two samples of the same data may lie by chance."""
    n, m = now.present + now.missing, before.present + before.missing
    pooled = (now.missing + before.missing) / max(1, n + m)
    return _DEVIATIONS * math.sqrt(pooled * (1 - pooled) * (1 / max(1, n) + 1 / max(1, m)))


def _new_values(
    split: str, now: FeatureStatistics, before: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    if before.values and before.values.complete:
        known = {value for value, _ in before.values.values}
        yield from _unknown_values("new_values", "the baseline", known, split, now, policy)


def _unknown_values(
    kind: str, where: str, known: Collection[str], split: str, measured: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    """Yields an anomaly if too many of the measured values are not among `known`.

    `where` says what the known values are.
    """
    counted = measured.values.values if measured.values else ()
    unknown = [(value, count) for value, count in counted if value not in known]
    all_of_them = max(1, sum(count for _, count in counted))  # a list gives a row several
    yield from policy.above_limit(
        kind,
        sum(count for _, count in unknown) / all_of_them,
        split=split,
        feature=measured.name,
        message=f"{where} lacks {format_values(unknown, of=all_of_them)}",
    )


def _drift(
    split: str, now: FeatureStatistics, before: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    distance = drift.distance(now, before)
    if distance is None:
        return
    where = f", most at {distance.where!r}" if distance.where else ""
    yield from policy.above_limit(
        "drift",
        distance.value,
        limit=max(policy.limit("drift"), distance.chance),
        split=split,
        feature=now.name,
        message=f"{distance.measure} distance {distance.value:.3g} from the baseline{where}",
    )


# --- Anomalies by what the schema declares.


_SHOWN = 5  # classes that a message names, at most


def conformance_anomalies(statistics: Statistics, schema: Schema, policy: Policy) -> list[Anomaly]:
    """Returns anomalies in the order of splits and features, without those of severity "ignore"."""
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
    yield from _constant(split, feature, measured, policy)
    for check in _BY_TYPE.of(feature):
        yield from check(split, feature, measured, policy)


def _missing(split: str, feature: Feature, measured: FeatureStatistics, policy: Policy) -> Iterator[Anomaly]:
    declared = feature.max_missing_fraction
    yield from policy.above_limit(
        "mostly_missing" if declared is None else "missing",
        measured.missing_fraction,
        limit=declared,
        split=split,
        feature=feature.name,
        message=f"missing in {measured.missing:,} of {measured.present + measured.missing:,} rows",
    )


def _constant(split: str, feature: Feature, measured: FeatureStatistics, policy: Policy) -> Iterator[Anomaly]:
    numeric, values = measured.numeric, measured.values
    # The one value of all lists may be in some of them.
    one_value = values and values.distinct == 1 and not feature.shape
    same = (numeric and numeric.minimum == numeric.maximum) or one_value
    if measured.present > 1 and same:
        write = formats.date if isinstance(feature, Datetime) else "{:.10g}".format
        value = write(numeric.minimum) if numeric else repr(values.values[0][0])
        yield policy.anomaly(
            "constant",
            split=split,
            feature=measured.name,
            message=f"{value} in all {measured.present:,} rows that have a value",
        )


def _rounded(
    split: str, feature: Numeric | Label, measured: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    numeric, error = measured.numeric, rounding(feature, measured)  # a label of classes has no numbers
    if not error:
        return
    if numeric.std:
        lost = f"stores the numbers to {error:.2g} of their standard deviation {numeric.std:.3g}, as"
        lost += f" their mean is {numeric.mean:.6g}"
    else:
        lost = f"stores {measured.present:,} numbers, which may differ, as one: {numeric.mean:.6g}"
    yield from policy.above_limit(
        "rounding",
        error,
        limit=max(policy.limit("rounding"), most_lost(feature)) if isinstance(feature, Label) else None,
        split=split,
        feature=feature.name,
        message=f"{feature.dtype} {lost}: train will refuse it. {way_out(feature, numeric)}",
    )


def _out_of_domain(
    split: str, feature: Categorical, measured: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    domain = _domain(feature)
    if domain is not None:
        yield from _unknown_values("out_of_domain", "the schema", domain, split, measured, policy)


def _domain(feature: Categorical) -> set[str] | None:
    if feature.encoding == "integer":
        return set(map(str, range(feature.size)))
    return set(feature.vocabulary) or None


def _absent_classes(
    split: str, feature: Label, measured: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    # A small split can hold only few of very many items.
    if measured.values is None or (feature.is_retrieval and split != TRAIN):
        return
    seen = {value for value, _ in measured.values.values}
    absent = [name for name in feature.classes if name not in seen]
    if absent:
        yield policy.anomaly(
            "absent_class",
            split=split,
            feature=feature.name,
            message=f"no row of class {', '.join(map(repr, absent[:_SHOWN]))}"
            + (f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else ""),
        )


_Check = Callable[[str, Feature, FeatureStatistics, Policy], Iterator[Anomaly]]

_BY_TYPE: FeatureTypeTable[tuple[_Check, ...]] = FeatureTypeTable(
    where=__name__,
    question="what else is checked of a feature's statistics",
    entry="checks of (split, feature, FeatureStatistics, Policy) to anomalies, possibly none: ()",
    entries={
        Numeric: (_rounded,),
        Categorical: (_out_of_domain,),
        Categories: (_out_of_domain,),
        Label: (_absent_classes, _rounded),
        Image: (),
        Text: (),
        Tokens: (),
        Tensor: (),
        Datetime: (),
    },
)


# --- Numbers that may stand for "no value": they change no dataset, so they are no anomalies.


_SENTINEL_ROWS = 3  # the least number of rows with the value, estimated from a sample


def sentinel_notes(statistics: Statistics, schema: Schema) -> Iterator[str]:
    """Yields a line for each feature in which a number or date far from the others repeats; labels come
    first.
    """
    for feature in (*schema.of_type(Label), *schema.of_type(Numeric), *schema.of_type(Datetime)):
        for split, measured in statistics.items():
            if found := _sentinels(measured.features[feature.name]):
                values = ", ".join(_raw(feature, number) for number in found)
                flag = shlex.quote(f"--missing={feature.source_column}={_raw(feature, found[0])}")
                is_above = found[-1] == measured.features[feature.name].numeric.maximum > 0
                cap = (
                    "If it is a cap or another true value, leave it. "
                    if is_above and not isinstance(feature, Datetime)
                    else ""
                )
                yield (
                    f"note: {split}, '{feature.name}': {values} stands apart from all others, and repeats. "
                    f"{cap}If it means that there is none, add it to 'null_markers' under 'clean' in the "
                    f"schema, and convert again; infer_schema {flag} does so too, but writes the schema anew."
                )
                break


def _sentinels(measured: FeatureStatistics) -> list[float]:
    if not measured.numeric or not measured.numeric.distribution:
        return []
    numbers, times = np.unique(measured.numeric.distribution, return_counts=True)
    bins = len(measured.numeric.distribution) - 1
    # The smallest and the largest value may be there once by themselves.
    rows = (times - 1) * measured.present // bins
    return numbers[are_sentinels(numbers, np.where(rows >= _SENTINEL_ROWS, rows, 1))].tolist()


def _raw(feature: Feature, number: float) -> str:
    if isinstance(feature, Datetime):
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=number)
        date = moment.strftime(feature.format.replace("%Y", f"{moment.year:04}"))
        return (
            date if moment.time() == datetime.time() or "%H" in feature.format else f"{date} {moment.time()}"
        )
    return f"{number + (feature.offset if isinstance(feature, Numeric) else 0.0):.9g}"


# --- The verdict on a dataset before it is published.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """`baseline` holds the statistics of an earlier dataset; empty where there is none to compare with."""

    policy: Policy = dataclasses.field(default_factory=Policy)
    baseline: Statistics = dataclasses.field(default_factory=dict)
    baseline_digest: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """The anomalies found, and the rules that found them."""

    rules: Rules
    anomalies: tuple[Anomaly, ...]

    def dumps(self) -> str:
        """The content of the dataset's anomalies.json."""
        rules = self.rules
        return anomalies_lib.dumps(self.anomalies, rules.policy, baseline_digest=rules.baseline_digest)


def parse_rules(*, severities: Sequence[str], limits: Sequence[str], baseline: str | None) -> Rules:
    """The rules of texts `kind=severity` and `kind=number`, and of a dataset directory; raises InputError."""
    policy = anomalies_lib.parse_policy(severities, limits)
    if not baseline:
        return Rules(policy=policy)
    dataset = window.open_window([baseline])
    return Rules(policy=policy, baseline=loading.load(dataset), baseline_digest=dataset.manifest.digest)


def evaluate(
    measured: Statistics, schema: Schema, rules: Rules, *, leaked: Sequence[Anomaly] = ()
) -> Verdict:
    """Joins the anomalies `leaked` with those of the statistics; raises InputError if one has severity
    "error".
    """
    found = [
        *conformance_anomalies(measured, schema, rules.policy),
        *leaked,
        *baseline_anomalies(measured, rules.baseline, rules.policy),
    ]
    anomalies_lib.check(found)
    return Verdict(rules=rules, anomalies=tuple(found))
