"""Why a cycle is due, and what it waits for."""

import dataclasses
import datetime
import pathlib

import pytest

from pipeline.retraining import plan
from pipeline.retraining.champion import Drift, Served
from pipeline.retraining.plan import Situation
from pipeline.retraining.records import Cycle
from tests.unit.retraining.settings_test import parsed
from tests.unit.retraining.window_test import span

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


def test_a_schedule_of_one_year_is_due_in_that_year_only():
    cron = "0 3 * * * 0 2027"
    assert (due("a", cron=cron), not_yet("a", cron=cron)) == (
        [],
        [f"the schedule '{cron}' is due next at 2027-01-01 03:00 UTC"],
    )
    past = "0 3 * * * 0 2025"
    assert due("a", cycles=[judged("a")], cron=past) == []
    assert not_yet("a", cron=past) == [f"the schedule '{past}' is never due again"]
