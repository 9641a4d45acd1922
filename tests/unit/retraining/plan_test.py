"""When a cycle starts, what it trains on, and what starts it anew."""

import dataclasses
import datetime
import importlib.metadata
import pathlib
import platform

import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema, SplitBy
from pipeline.retraining import plan, records
from pipeline.retraining.champion import Drift, Served, missing_distance
from pipeline.retraining.datasets import Span
from pipeline.retraining.plan import Situation, choose_window
from pipeline.retraining.records import Cycle
from pipeline.retraining.spans import RawSpan
from tests.shared.small_spans import SCHEMA
from tests.unit.retraining.settings_test import parsed

# Why a cycle is due, and what it waits for.

NOON = datetime.datetime(2026, 11, 8, 12, tzinfo=datetime.UTC)


def judged(names, *, at=NOON, settings="same"):
    plan = {
        "at": at.isoformat(),
        "settings": settings,
        "spans": [{"name": name, "fingerprint": f"f{name}"} for name in names],
    }
    return Cycle(
        id="c1", folder=pathlib.Path(), plan=plan, end={"decision": "PROMOTE", "reasons": []}, failure=None
    )


def settings_of(**keys):
    settings = parsed(triggers__new_spans=0)
    return dataclasses.replace(settings, triggers=dataclasses.replace(settings.triggers, **keys))


def situation(names, *, cycles=(), age_days=1.0, drifts=(), now=NOON, **keys):
    published = now - datetime.timedelta(days=age_days)
    champion = Served(version=3, directory=pathlib.Path(), cycle="c1", at=published.isoformat(), digest="d")
    return Situation(
        settings=settings_of(**keys),
        settings_digest="same",
        spans=[span(name) for name in names],
        champion=champion,
        decided=cycles,
        drifts=drifts,
        now=now,
    )


def due(*arguments, **keys):
    return list(plan.due_triggers(situation(*arguments, **keys)))


def not_yet(*arguments, **keys):
    return list(plan.why_not_yet(situation(*arguments, **keys)))


def test_new_spans_make_a_cycle_due():
    assert due("abcde", new_spans=1) == ["5 new spans: a, b, c, …"]
    assert due("abc", cycles=[judged("ab")], new_spans=1) == ["1 new span: c"]
    assert due("abc", cycles=[judged("ab")], new_spans=2) == []
    assert not_yet("abc", cycles=[judged("ab")], new_spans=2) == ["2 new spans needed, 1 there"]


def test_without_any_trigger_nothing_is_due():
    assert due("abc") == []
    assert not_yet("abc") == []


def test_a_span_with_other_content_is_new():
    (changed,) = plan.new_spans([span("a")], [judged("b")])
    assert changed.name == "a"


@pytest.mark.parametrize(
    ("since", "is_due"),
    [
        (datetime.timedelta(hours=8), False),  # 04:00: after the last 03:00
        (datetime.timedelta(hours=10), True),  # 02:00
        (datetime.timedelta(days=3), True),
    ],
)
def test_a_schedule_is_due_once_for_each_of_its_times(since, is_due):
    found = due("a", cycles=[judged("a", at=NOON - since)], cron="0 3 * * *")
    assert found == (["the schedule '0 3 * * *' was due at 2026-11-08 03:00 UTC"] if is_due else [])


def test_a_schedule_that_never_ran_is_due():
    assert due("a", cron="0 3 * * *")


def test_at_the_very_minute_of_the_schedule_it_is_due():
    three = NOON.replace(hour=3, second=30)
    assert due("a", cycles=[judged("a", at=NOON - datetime.timedelta(days=1))], cron="0 3 * * *", now=three)
    again = judged("a", at=three)
    assert not due("a", cycles=[again], cron="0 3 * * *", now=three + datetime.timedelta(seconds=20))


def test_what_a_schedule_waits_for_is_told():
    assert not_yet("a", cycles=[judged("a")], cron="0 3 * * *") == [
        "the schedule '0 3 * * *' is due next at 2026-11-09 03:00 UTC"
    ]


def test_a_model_may_be_too_old():
    assert due("a", age_days=8.0, cycles=[judged("a")]) == []
    old = situation("a", cycles=[judged("a")], age_days=8.0)
    asked = dataclasses.replace(old, settings=settings_of(age_days=7.0))
    assert list(plan.due_triggers(asked)) == ["version 3 is 8.0 days old, more than 7"]


def test_drift_may_make_a_cycle_due():
    drifts = [Drift(span=span("a"), feature="fare", measure="Jensen-Shannon", value=0.2, where="")]
    assert due("a", cycles=[judged("a")], drifts=drifts, drift=0.1) == [
        "span a: feature 'fare' moved by 0.200 (Jensen-Shannon), 0.1 or more"
    ]
    assert due("a", cycles=[judged("a")], drifts=drifts, drift=0.3) == []
    assert not_yet("a", cycles=[judged("a")], drifts=drifts, drift=0.3) == [
        "new spans drifted by 0.200 at most, of 0.3"
    ]


def test_another_config_makes_a_cycle_due():
    assert due("a", cycles=[judged("a", settings="other")]) == ["the config is another than that of cycle c1"]


def test_a_plan_says_how_many_examples_would_decide(tmp_path):
    open_one = dataclasses.replace(judged("a"), folder=tmp_path)
    assert list(plan.stated_examples([])) == list(plan.stated_examples([open_one])) == []
    records.write_result(tmp_path / "decide.json", {"gate": {"examples": 5_200, "rows": 1_000}})
    assert list(plan.stated_examples([judged("b"), open_one])) == [
        "cycle c1 was UNDECIDED on 1,000 rows of its holdout: about 5,200 would decide"
    ]


def test_a_schedule_of_one_year_is_due_in_that_year_only():
    cron = "0 3 * * * 0 2027"
    assert (due("a", cron=cron), not_yet("a", cron=cron)) == (
        [],
        [f"the schedule '{cron}' is due next at 2027-01-01 03:00 UTC"],
    )
    past = "0 3 * * * 0 2025"
    assert due("a", cycles=[judged("a")], cron=past) == []
    assert not_yet("a", cron=past) == [f"the schedule '{past}' is never due again"]


# Which spans are trained on, and which judge.


def span(name, unusable=""):
    raw = RawSpan(name=name, path=pathlib.Path(name), files=1, size=1, digest=name, content=name)
    return Span(name=name, fingerprint=f"f{name}", raw=raw, unusable=unusable, result=None)


def chosen(names, *, bad=(), **keys):
    settings = parsed(**{key.replace("_", "__", 1): value for key, value in keys.items()})
    window = choose_window([span(name, "broken" if name in bad else "") for name in names], settings)
    return (
        "".join(each.name for each in window.training),
        "".join(each.name for each in window.holdout),
        window,
    )


@pytest.mark.parametrize(
    ("names", "keys", "training", "holdout"),
    [
        ("abcd", {}, "abc", "d"),
        ("abcd", {"holdout_last": 2}, "ab", "cd"),
        ("abcde", {"window_last": 2}, "cd", "e"),
        ("abcde", {"window_start": "b", "window_end": "d"}, "bc", "d"),
        ("abcde", {"window_start": "bb"}, "cd", "e"),
        ("abcd", {"bad": "d"}, "ab", "c"),
        ("abcd", {"bad": "c", "window_last": 1}, "b", "d"),
        ("abcd", {"holdout_kind": "split"}, "abcd", "abcd"),
        ("abcd", {"holdout_kind": "split", "window_last": 3}, "bcd", "bcd"),
    ],
)
def test_the_newest_spans_judge_what_the_ones_before_them_teach(names, keys, training, holdout):
    found = chosen(names, **keys)
    assert found[:2] == (training, holdout)
    assert not found[2].missing


@pytest.mark.parametrize(
    ("names", "keys", "missing"),
    [
        ("", {}, "no spans can be used; 1 to train on and 1 behind them to evaluate with are needed"),
        ("a", {}, "1 span can be used; 1 to train on and 1 behind them to evaluate with are needed"),
        ("ab", {"holdout_last": 5}, "2 spans can be used; 1 to train on and 5 behind them"),
        ("abc", {"window_least": 3}, "3 spans can be used; 3 to train on and 1 behind"),
        ("a", {"bad": "a", "holdout_kind": "split"}, "no spans can be used; 1 to train on are needed"),
    ],
)
def test_too_few_spans_are_told(names, keys, missing):
    assert chosen(names, **keys)[2].missing.startswith(missing)


def test_what_cannot_be_used_is_told():
    assert [each.name for each in chosen("abcd", bad="bc")[2].left_out] == ["b", "c"]


def test_a_window_that_ends_before_it_starts_is_refused():
    with pytest.raises(InputError, match=r"config\.window\.start: received 'b', which comes after"):
        chosen("ab", window_start="b", window_end="a")


def test_a_span_that_teaches_and_judges_is_read_once():
    assert len(chosen("ab", holdout_kind="split")[2].spans) == 2


# The same code beneath the same packages has the same digest.

fresh = plan.code_digest.__wrapped__  # of this moment, where a process computes it once


def test_it_stays_while_nothing_changes():
    assert fresh() == fresh() == plan.code_digest()


@pytest.mark.parametrize(
    "package", ["tensorflow", "keras", "numpy", "scipy", "statsmodels", "pyarrow", "pillow"]
)
def test_another_version_of_what_computes_is_other_code(monkeypatch, package):
    before, version = fresh(), importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.0.1" if name == package else version(name)
    )
    assert fresh() != before


def test_another_python_is_other_code(monkeypatch):
    before = fresh()
    monkeypatch.setattr(platform, "python_version", lambda: "3.99.0")
    assert fresh() != before


# What a config names is looked for in the schema before anything is trained.


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        (
            {"gate__slices": ("compani",)},
            r"config\.gate\.slices: received 'compani'.* Did you mean 'company'",
        ),
        ({"gate__clustered_by": "driver"}, r"config\.gate\.clustered_by: received 'driver'"),
        ({"holdout__weighted_by": "company"}, r"config\.holdout\.weighted_by: received 'company'"),
        ({"drift__ignore": ("date",)}, r"config\.drift\.ignore: received 'date'"),
        ({"gate__metric": "mean_squared_error"}, r"config\.gate\.metric: .* task 'binary': log_loss, auc"),
        ({"gate__floors": {"mean_absolute_error": 3.0}}, r"config\.gate\.floors: .* task 'binary'"),
    ],
)
def test_what_the_schema_does_not_have_is_named(keys, named):
    with pytest.raises(InputError, match=named):
        plan.check_features(parsed(**keys), SCHEMA)


def test_items_have_metrics_of_their_own():
    items = Schema(name="trips", features=(Label(name="item", task="retrieval", classes=("a", "b")),))
    plan.check_features(parsed(gate__metric="recall_at_10"), items)
    with pytest.raises(InputError, match=r"config.gate.metric: received 'auc'; .* task 'retrieval'"):
        plan.check_features(parsed(gate__metric="auc"), items)


def test_what_the_schema_has_may_be_named():
    keys = {
        "gate__slices": ("company",),
        "gate__clustered_by": "company",
        "gate__floors": {"auc": 0.6},
        "holdout__weighted_by": "distance",
        "drift__ignore": ("distance",),
    }
    plan.check_features(parsed(**keys), SCHEMA)


def test_a_plan_names_it_before_a_cycle_begins(schedule):
    schedule.add(3)
    schedule.config.gate.slices = ("compani",)
    with pytest.raises(InputError, match=r"config\.gate\.slices"):
        schedule.plan()


# How much the part of missing values moved.


def feature(present, missing):
    return FeatureStatistics(name="fare", dtype="float32", present=present, missing=missing)


def test_the_distance_is_the_change_of_the_part_that_is_missing():
    found = missing_distance(feature(700, 300), feature(9_000, 1_000))
    assert (found.measure, round(found.value, 12)) == ("missing", 0.2)
    assert found.value > found.chance


def test_chance_grows_with_fewer_rows():
    few, many = (missing_distance(feature(n, n // 10), feature(n, n // 9)) for n in (100, 100_000))
    assert few.chance > few.value
    assert many.chance < few.chance


def test_splits_by_date_are_refused_because_new_spans_would_not_be_trained_on():
    columns = {"features": (Numeric(name="miles"), Label(name="tipped", classes=("no", "yes")))}
    dated = SplitBy(columns=("day",), first="train", starts={"test": "2026-11-10"})
    with pytest.raises(
        InputError, match=r"split_by in schema 'trips': received dates of column 'day': test f"
    ):
        plan.check_features(parsed(), Schema(name="trips", split_by=dated, **columns))
    for other in (
        SplitBy(columns=("customer",)),
        SplitBy(columns=("place",), first="train", starts={"test": 1}),
    ):
        plan.check_features(parsed(), Schema(name="trips", split_by=other, **columns))
