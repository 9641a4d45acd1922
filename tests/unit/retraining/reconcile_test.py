"""The same inputs make the same cycle, once; everything else is told."""

import datetime
import json
import shutil

import pytest

from pipeline.base.errors import InputError, TryAgainError
from pipeline.publishing import versions
from pipeline.retraining import cycle as cycle_lib
from pipeline.retraining import reconcile as reconcile_lib
from pipeline.retraining import records
from pipeline.retraining.job import Job
from tests.shared import small_spans


def test_the_first_model_is_published_with_its_card_and_lineage(promoted):
    (cycle,) = promoted.cycles
    served = versions.path_of(promoted.root.serving, 1)
    assert cycle.end["version"] == 1
    assert f"cycle {cycle.id}" in (served / "MODEL_CARD.md").read_text()
    lineage = json.loads((served / "lineage.json").read_text())
    assert [raw["span"] for raw in lineage["raw"]] == [small_spans.day(number) for number in range(3)]
    assert lineage["cycle"]["id"] == cycle.id
    assert (cycle.folder / "report.html").exists()
    assert promoted.acts() == ["published", "decided"]


def test_a_second_tick_does_nothing(schedule):
    before = sorted(schedule.path.rglob("*"))
    outcome = schedule.reconcile()
    assert (outcome.did, outcome.why[-1]) == ("nothing", "1 new span needed, 0 there")
    assert sorted(schedule.path.rglob("*")) == before


def test_a_schedule_that_is_due_without_new_data_does_nothing_and_says_why(schedule):
    schedule.config.triggers.cron = "0 * * * *"
    outcome = schedule.later(hours=2).reconcile()
    assert outcome.did == "nothing"
    assert outcome.why[0].startswith(f"cycle {schedule.cycles[0].id} has evaluated these spans")


def test_while_another_process_retrains_a_caller_is_told_to_try_again(schedule):
    with records.open_root(schedule.path, name="trips"), pytest.raises(TryAgainError):
        schedule.reconcile()


def test_on_hold_nothing_happens(schedule):
    schedule.add(3)
    records.put_hold(schedule.root, reason="holiday", by="a person", at=schedule.now)
    assert schedule.reconcile().did == "held"
    assert len(schedule.cycles) == 1
    records.release_hold(schedule.root, reason="back", at=schedule.now)
    assert schedule.plan().due == ("1 new span: 2026-11-04",)


def test_a_span_whose_labels_turned_around_holds_until_a_person_looked(schedule):
    schedule.add(3, flipped=True, noise=0.0, companies=("Red",))
    outcome = schedule.reconcile()
    assert outcome.did == "held"
    assert "span 2026-11-04: feature 'company' moved by" in outcome.why[0]
    again = schedule.reconcile()
    assert again.did == "held"
    assert again.why[-1] == outcome.why[-1]  # what a person does next
    assert "config.drift.ignore" in outcome.why[-1]
    records.release_hold(schedule.root, reason="only Red works today", at=schedule.now)
    plan = schedule.plan()
    assert (plan.drifts, len(plan.due)) == ((), 1)


@pytest.mark.slow
def test_a_drift_that_is_ignored_holds_no_later_span_but_ends_no_hold(schedule):
    schedule.add(3, companies=("Red",))
    assert schedule.reconcile().did == "held"
    schedule.config.drift.ignore = ("company",)
    assert schedule.reconcile().did == "held"
    records.release_hold(schedule.root, reason="only Red works from today", at=schedule.now)
    schedule.add(4, companies=("Red",))
    schedule.config.drift.ignore = ()
    assert schedule.reconcile().did == "held"  # by the later span, which the release did not let pass
    assert {drift.span.name for drift in schedule.plan().drifts} == {"2026-11-05"}
    schedule.config.drift.ignore = ("company",)
    assert schedule.plan().drifts == ()


@pytest.mark.slow
def test_a_span_that_is_left_out_needs_a_release_too(schedule):
    schedule.add(3, companies=("Red",))
    assert schedule.reconcile().did == "held"
    schedule.config.spans.exclude = ("2026-11-04",)
    assert schedule.reconcile().did == "held"
    records.release_hold(schedule.root, reason="left out", at=schedule.now)
    assert schedule.reconcile().did == "nothing"


def test_a_span_that_is_rewritten_after_use_is_a_new_input_and_says_so(schedule):
    small_spans.write_rows(schedule.path, "2026-11-02", [("3.0", "Red", "yes"), ("2.0", "Blue", "no")] * 40)
    plan = schedule.plan()
    used = schedule.cycles[0].id
    assert plan.due == ("1 new span: 2026-11-02",)
    assert plan.notes == (f"span 2026-11-02 is not what cycle {used} used: it is a new input",)
    assert plan.id != used


def test_spans_that_say_nothing_are_left_out_and_told(schedule):
    name = schedule.add(3)
    shutil.copytree(small_spans.folder(schedule.path, name), small_spans.folder(schedule.path, "2026-11-05"))
    small_spans.folder(schedule.path, "2026-11-06").mkdir()
    window = schedule.plan().window
    assert [span.name for span in window.holdout] == [name]
    assert {span.name: span.unusable for span in window.left_out} == {
        "2026-11-05": "it repeats span 2026-11-04, byte for byte",
        "2026-11-06": "it has no bytes",
    }


@pytest.mark.slow
def test_a_span_that_cannot_be_converted_is_left_out_with_its_error(schedule):
    small_spans.write_rows(schedule.path, "2026-11-04", [("far", "Red", "yes")] * 20)
    outcome = schedule.reconcile()
    assert outcome.did == "nothing"
    assert "distance" in outcome.left_out["2026-11-04"]
    assert schedule.acts()[-1] == "left_out"


def test_an_unusable_span_stops_where_the_config_says_so(schedule):
    schedule.config.spans.unusable = "stop"
    small_spans.write_rows(schedule.path, "2026-11-04", [("far", "Red", "yes")] * 20)
    for _ in range(2):  # the second call finds the result of the first
        with pytest.raises(InputError, match=r"span '2026-11-04'.*config\.spans\.exclude"):
            schedule.reconcile()
    schedule.config.spans.exclude = ("2026-11-04",)
    assert schedule.reconcile().did == "nothing"


def test_a_holdout_that_overlaps_the_window_fails_the_cycle_before_it_is_trained(schedule):
    first = (small_spans.folder(schedule.path, "2026-11-01") / "trips.csv").read_text().splitlines()[1:]
    fresh = (small_spans.folder(schedule.path, schedule.add(3)) / "trips.csv").read_text().splitlines()[1:]
    rows = [line.split(",") for line in [*first[:40], *fresh]]
    small_spans.write_rows(schedule.path, "2026-11-04", rows)
    with pytest.raises(InputError, match=r"(40|41|42) of 280 rows .* that training saw too"):
        schedule.reconcile()
    cycle = schedule.cycles[-1]
    assert cycle.failure["stage"] == "data"
    assert not (cycle.folder / "run").exists()
    with pytest.raises(InputError, match=rf"cycle {cycle.id}: received a failure in stage 'data'"):
        schedule.reconcile()
    with pytest.raises(InputError, match="that training saw too"):
        schedule.reconcile(retry=True)
    assert schedule.acts().count("failed") == 1
    assert schedule.versions == [1]


def test_a_champion_that_disappeared_is_named(schedule):
    shutil.rmtree(versions.path_of(schedule.root.serving, 1))
    promote = rf"promote --cycle={schedule.cycles[0].id}"
    with pytest.raises(InputError, match=rf"the champion, version 1 .*no such folder.*{promote}"):
        schedule.reconcile()


@pytest.mark.slow
def test_an_anchor_that_disappeared_does_not_give_way_to_the_next_version(schedule):
    schedule.config.gate.rule, schedule.config.gate.margin = "non_inferiority", 1.0
    schedule.add(3)
    assert schedule.reconcile().version == 2
    shutil.rmtree(versions.path_of(schedule.root.serving, 1))
    schedule.add(4)
    with pytest.raises(InputError, match=r"the anchor, version 1 .*config\.gate_anchor"):
        schedule.later(hours=1).reconcile()
    schedule.config.gate_anchor = 2
    assert schedule.plan().anchor.version == 2


def test_a_clock_that_was_set_back_is_named(schedule):
    schedule.add(3)
    before = sorted(schedule.path.rglob("*"))
    with pytest.raises(InputError, match="the clock"):
        schedule.later(days=-2).reconcile()
    assert sorted(schedule.path.rglob("*")) == before  # nothing is converted, either


@pytest.mark.slow
def test_a_cycle_goes_on_where_it_was_broken_off_though_more_data_came(schedule, stopping_at, monkeypatch):
    schedule.add(3)
    with monkeypatch.context() as patched:
        stopping_at("export")
        with pytest.raises(KeyboardInterrupt):
            schedule.reconcile()
        patched.undo()
    monkeypatch.undo()
    begun = schedule.cycles[-1]
    schedule.later(hours=1).add(4)
    plan = schedule.plan()
    assert (plan.id, plan.goes_on.id) == (begun.id, begun.id)
    assert json.loads((begun.folder / "train.json").read_text())["metrics"]


@pytest.mark.slow
def test_a_cycle_whose_span_changed_before_it_was_finished_is_left(schedule, stopping_at):
    schedule.add(3)
    stopping_at("train")
    with pytest.raises(KeyboardInterrupt):
        schedule.reconcile()
    begun = schedule.cycles[-1]
    schedule.add(3, rows=200)
    with pytest.raises(KeyboardInterrupt):
        schedule.later(hours=1).reconcile()
    left, fresh = schedule.cycles[-2:]
    assert (left.id, left.decision) == (begun.id, "SUPERSEDED")
    assert fresh.end is None


def test_a_stage_that_is_killed_again_and_again_fails_the_cycle(schedule, stopping_at):
    schedule.add(3)
    schedule.config.attempts = 3
    stopping_at("train")
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            schedule.reconcile()
    with pytest.raises(InputError, match="3 starts that neither ended nor made progress"):
        schedule.reconcile()
    assert schedule.cycles[-1].failure["stage"] == "train"
    with pytest.raises(KeyboardInterrupt):
        schedule.later(minutes=1).reconcile(retry=True)


def entries(*told):
    """Entries of the log: a number is a start of training at that progress."""
    return [
        {
            "cycle": "c1",
            **({"act": "started", "stage": "train", "progress": each} if type(each) is int else each),
        }
        for each in told
    ]


POSTPONED, RETRIED = {"act": "postponed", "stage": "train"}, {"act": "retried"}


@pytest.mark.parametrize(
    ("told", "progress", "expected"),
    [
        ([0, 0, 0], 0, 3),
        ([0, 0, 0], 40, 0),  # the last start came further
        ([0, 20, 40, 40], 40, 2),
        ([0, 0, RETRIED, 0], 0, 1),
        ([0, POSTPONED, 0, POSTPONED, 0], 0, 1),  # a full disk is not the stage's fault
        ([20, 40, POSTPONED], 40, 0),
        ([20, POSTPONED, 40], 40, 1),
        (
            [0, {"act": "started", "stage": "export"}, {"cycle": "c2", "act": "started", "stage": "train"}],
            0,
            1,
        ),
    ],
)
def test_only_starts_without_progress_count_as_attempts(told, progress, expected):
    assert cycle_lib.count_starts(entries(*told), "c1", "train", progress) == expected


def test_the_progress_of_training_is_its_newest_checkpoint(promoted):
    (begun,) = promoted.cycles
    job = Job(root=promoted.root, settings=promoted.settings, id=begun.id, plan=begun.plan, now=None)
    steps = sorted(int(path.name.removeprefix("step-")) for path in (job.run / "checkpoints").glob("step-*"))
    assert [cycle_lib._progress(job, name) for name in ("train", "export")] == [steps[-1], 0]


def test_a_failure_for_lack_of_memory_that_was_written_down_is_tried_again(tmp_path):
    root = records.Root(path=tmp_path, name="trips")
    for name, error in (("a", "pipeline.train: received MemoryError"), ("b", "the holdout has no rows")):
        root.cycle(name).mkdir(parents=True)
        records.write_result(root.cycle(name) / records.PLAN, {"cycle": name, "at": "2026-11-04"})
        records.write_result(root.cycle(name) / records.FAILED, {"stage": "train", "error": error})
    lacking, other = (records.read_cycle(root.cycle(name)) for name in "ab")
    reconcile_lib._try_again(root, lacking, retry=False, at=datetime.datetime.now(datetime.UTC))
    assert not (lacking.folder / records.FAILED).exists()
    with pytest.raises(InputError, match="other inputs"):
        reconcile_lib._try_again(root, other, retry=False, at=datetime.datetime.now(datetime.UTC))
