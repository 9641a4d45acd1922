"""What is said about a dataset as a whole, and what that has for consequences."""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs.checks import validate
from beam_jobs.checks.anomalies import Anomaly, parse_policy
from beam_jobs.checks.validate import Rules
from pipeline.base.errors import InputError
from pipeline.data.dataset.statistics import (
    FeatureStatistics,
    NumericSummary,
    SplitStatistics,
    Statistics,
    ValueCounts,
)
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Categorical, Datetime, Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics.accumulators import gathered_of

CITY = Categorical(name="city", vocabulary=("Bern", "Zug"), missing="mark")
FARE = Numeric(name="fare", missing="mark")
PAID = Label(name="paid", classes=("no", "yes"))


def schema(*features: Feature) -> Schema:
    return Schema(name="rides", features=features)


def counted(name: str, *, missing: int = 0, **counts: int) -> FeatureStatistics:
    values = ValueCounts(distinct=len(counts), values=tuple(counts.items()))
    return FeatureStatistics(
        name=name, dtype="string", present=sum(counts.values()), missing=missing, values=values
    )


def numbers(
    *, present: int = 100, missing: int = 0, shift: float = 0.0, width: float = 1.0
) -> FeatureStatistics:
    boundaries = tuple(shift + width * i / 32 for i in range(33))
    numeric = NumericSummary(
        minimum=shift,
        maximum=shift + width,
        mean=shift,
        std=1.0,
        zeros=0,
        quantiles=boundaries,
        distribution=boundaries,
    )
    return FeatureStatistics(name="fare", dtype="float32", present=present, missing=missing, numeric=numeric)


def of(*features: FeatureStatistics) -> Statistics:
    examples = features[0].present + features[0].missing
    return {"train": SplitStatistics(examples=examples, features={f.name: f for f in features})}


def found(measured: Statistics, declared: Schema, baseline: Statistics | None = None) -> list[Anomaly]:
    everything_warns = parse_policy(["missing=warning"], [])
    rules = Rules(policy=everything_warns, baseline=baseline or {})
    return list(validate.evaluate(measured, declared, rules).anomalies)


def test_sound_data_has_no_anomaly():
    measured = of(counted("city", Bern=60, Zug=40), numbers(), counted("paid", no=50, yes=50))
    assert found(measured, schema(CITY, FARE, PAID), baseline=measured) == []


@pytest.mark.parametrize(
    ("declared", "measured", "kind", "message"),
    [
        (FARE, numbers(present=5, missing=95), "mostly_missing", "missing in 95 of 100 rows"),
        (
            Numeric(name="fare", missing="mark", max_missing_fraction=0.01),
            numbers(present=98, missing=2),
            "missing",
            "missing in 2 of 100 rows",
        ),
        (FARE, numbers(shift=7, width=0), "constant", "7 in all 100 rows that have a value"),
        (CITY, counted("city", Bern=9), "constant", "'Bern' in all 9 rows that have a value"),
        (
            CITY,
            counted("city", Bern=90, Zug=8, Rom=2),
            "out_of_domain",
            "the schema lacks 1 value in 2.00% of rows: 'Rom' × 2",
        ),
        (
            Categorical(name="city", encoding="integer", size=2),
            counted("city", **{"0": 3, "2": 1}),
            "out_of_domain",
            "the schema lacks 1 value in 25.00% of rows: '2' × 1",
        ),
        (PAID, counted("paid", no=1), "absent_class", "no row of class 'yes'"),
    ],
)
def test_against_the_schema(declared: Feature, measured: FeatureStatistics, kind: str, message: str):
    [anomaly] = found(of(measured), schema(declared))
    assert (anomaly.split, anomaly.feature, anomaly.kind) == ("train", declared.name, kind)
    assert anomaly.message == message


@pytest.mark.parametrize(
    ("declared", "measured", "before", "kind", "message"),
    [
        (FARE, numbers(present=1000), numbers(), "examples", "1,000 rows in place of 100"),
        (
            FARE,
            numbers(present=600, missing=400),
            numbers(present=900, missing=100),
            "missing_jump",
            "missing in 40.00% of rows, 10.00% before",
        ),
        (
            Categorical(name="city"),
            counted("city", Bern=500, Zug=498, Rom=2),
            counted("city", Bern=500, Zug=500),
            "new_values",
            "the baseline lacks 1 value in 0.20% of rows: 'Rom' × 2",
        ),
        (
            Categorical(name="city"),
            counted("city", Bern=500, Zug=400, Rom=100),
            counted("city", Bern=300, Zug=500, Rom=200),
            "drift",
            "L-infinity distance 0.2 from the baseline, most at 'Bern'",
        ),
        (
            FARE,
            numbers(present=1000, shift=0.5),
            numbers(present=1000),
            "drift",
            "Jensen-Shannon distance 0.5 from the baseline",
        ),
    ],
)
def test_against_a_baseline(
    declared: Feature, measured: FeatureStatistics, before: FeatureStatistics, kind: str, message: str
):
    [anomaly] = found(of(measured), schema(declared), baseline=of(before))
    assert (anomaly.kind, anomaly.message) == (kind, message)


def test_a_feature_of_only_one_dataset_is_named():
    only_now = found(of(numbers()), schema(FARE), baseline=of(counted("city", Bern=60, Zug=40)))
    assert [(a.feature, a.message) for a in only_now] == [
        ("city", "only in the baseline"),
        ("fare", "not in the baseline"),
    ]


def test_an_error_blocks_and_lists_everything():
    rules = Rules(policy=parse_policy(["constant=error"], ["mostly_missing=0.5"]))
    measured = of(counted("city", Bern=10), numbers(present=1, missing=9, width=0))
    with pytest.raises(InputError, match=r"1 of severity 'error' \(constant\)") as caught:
        validate.evaluate(measured, schema(CITY, FARE), rules)
    assert "error: constant: train, 'city'" in str(caught.value)
    assert "warning: mostly_missing: train, 'fare': missing in 9 of 10 rows" in str(caught.value)


def test_ignored_kinds_are_left_out_and_limits_hold():
    measured = of(counted("city", Bern=90, Rom=10))
    strict = validate.evaluate(measured, schema(CITY), Rules())
    assert [anomaly.kind for anomaly in strict.anomalies] == ["out_of_domain"]
    for policy in (parse_policy(["out_of_domain=ignore"], []), parse_policy([], ["out_of_domain=0.1"])):
        assert validate.evaluate(measured, schema(CITY), Rules(policy=policy)).anomalies == ()


def test_the_verdict_tells_the_rules_it_was_found_by():
    rules = Rules(policy=parse_policy(["drift=error"], ["drift=0.2"]), baseline_digest="abc")
    document = json.loads(validate.evaluate(of(counted("city", Bern=9)), schema(CITY), rules).dumps())
    assert (document["severities"]["drift"], document["limits"]["drift"]) == ("error", 0.2)
    assert document["baseline_digest"] == "abc"
    assert [anomaly["kind"] for anomaly in document["anomalies"]] == ["constant"]


@pytest.mark.parametrize(
    ("severities", "limits"),
    [(["drift=fatal"], []), (["typo=error"], []), ([], ["drift=x"]), ([], ["constant=1"])],
)
def test_bad_flags_are_refused(severities: list[str], limits: list[str]):
    with pytest.raises(InputError, match=r"--severity|--limit"):
        parse_policy(severities, limits)


def measured_of(feature: Feature, values: Sequence[float]) -> FeatureStatistics:
    gathered = gathered_of(feature)
    gathered.add(np.arange(len(values), dtype=np.uint64), pa.array(values))
    return gathered.result(feature)


def test_numbers_that_stand_apart_are_noted_those_of_the_label_first():
    chance = np.random.default_rng(4)
    degrees = [-200.0] * 40 + chance.normal(20, 5, 960).round(1).tolist()
    day = 86_400_000_000
    days = [-25_567 * day] * 40 + [day * (18_000 + at % 900) for at in range(960)]
    columns = [
        (Numeric(name="t", offset=10.0), [value - 10 for value in degrees]),
        (Datetime(name="on", column="day"), days),
        (Numeric(name="fine"), chance.normal(20, 5, 1000).tolist()),
        (Label(name="y", task="regression"), degrees),
    ]
    statistics = of(*(measured_of(feature, values) for feature, values in columns))
    notes = list(validate.sentinel_notes(statistics, schema(*(feature for feature, _ in columns))))
    assert [note.partition("infer_schema ")[2].partition(" ")[0] for note in notes] == [
        "--missing=y=-200",
        "--missing=t=-200",
        "--missing=day=1900-01-01",
    ]
    assert notes[0].startswith("note: train, 'y': -200 stands apart from all others, and repeats.")
    assert "cap" not in notes[0] and "'null_markers' under 'clean'" in notes[0]
    visits = [*([30.0] * 40), *chance.integers(0, 9, 960).tolist()]
    [note] = validate.sentinel_notes(of(measured_of(FARE, visits)), schema(FARE))
    assert "30 stands apart from all others, and repeats. If it is a cap or another true value, leave" in note
    few = of(measured_of(FARE, [*range(20), 1000.0]))
    assert not list(validate.sentinel_notes(few, schema(FARE)))


def test_a_label_that_float32_holds_is_no_anomaly_and_one_that_it_cannot_tell_apart_is():
    label = Label(name="y", task="regression")
    years = of(measured_of(label, [2000.0 + at % 9 for at in range(90)]))
    assert not found(years, schema(label))
    (anomaly,) = found(of(measured_of(label, [1e9 + at % 9 for at in range(90)])), schema(label))
    assert (anomaly.kind, anomaly.message.endswith("Subtract a constant from the column")) == (
        "rounding",
        True,
    )
