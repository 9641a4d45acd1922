"""What a first model must beat, and how often rows of a holdout have judged before."""

import dataclasses
import datetime
import types

import numpy as np
import pytest

from pipeline.base.errors import InputError, TryAgainError
from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics, ValueCounts
from pipeline.data.schema.feature_types import Label, TokenLabel
from pipeline.retraining import cycle, holdout, records, stages
from pipeline.retraining.decision import decide, reuses, scored
from pipeline.retraining.job import Job
from pipeline.retraining.records import Root
from pipeline.retraining.stages import prior_of
from pipeline.serving.result import InfraResult, Limits
from tests.shared import small_spans


def span(number: int, *, content: str = "", roles=("holdout",)) -> dict:
    return {"name": small_spans.day(number), "raw_digest": content or f"sha of {number}", "roles": roles}


def begun(root: Root, cycle: str, *spans: dict, decided: bool = True) -> Job:
    """A cycle of which only the plan and, where it has one, the decision are there."""
    plan = {"cycle": cycle, "at": "2026-11-04T06:00:00+00:00", "spans": spans}
    receipts_of = root.cycle(cycle)
    receipts_of.mkdir(parents=True)
    records.write_result(receipts_of / "plan.json", plan)
    if decided:
        records.write_result(receipts_of / "decide.json", {"decision": "REJECT"})
    return Job(root=root, settings=None, id=cycle, plan=plan, now=None)


@pytest.fixture
def root(tmp_path):
    return Root(path=tmp_path, name="trips")


def test_a_holdout_that_shares_a_span_with_an_earlier_one_is_used_again(root):
    begun(root, "a", span(0, roles=("training",)), span(1), span(2))
    begun(root, "b", span(1, roles=("training",)), span(2), span(3))
    assert reuses(begun(root, "c", span(2, roles=("training",)), span(3), span(4))) == 1
    assert reuses(begun(root, "d", span(2), span(3))) == 3
    assert reuses(begun(root, "e", span(9))) == 0


def test_a_span_that_was_corrected_or_renamed_is_used_again(root):
    begun(root, "a", span(1, content="one"))
    assert reuses(begun(root, "b", span(1, content="one, corrected"))) == 1
    assert reuses(begun(root, "c", span(7, content="one"))) == 1


def test_a_cycle_that_decided_and_then_failed_to_publish_has_judged(root):
    begun(root, "a", span(1), decided=False)
    failed = begun(root, "b", span(1))
    records.write_result(failed.folder / "failed.json", {"stage": "publish", "error": "the disk was full"})
    assert reuses(begun(root, "c", span(1))) == 1


def test_a_cycle_does_not_count_itself(root):
    assert reuses(begun(root, "a", span(1))) == 0


@pytest.mark.parametrize(("stage", "told"), [("parity", "parity"), ("infra", "infra check")])
def test_what_fails_parity_or_the_infra_check_is_rejected_however_good_it_is(schedule, stage, told):
    (cycle,) = schedule.cycles
    job = Job(root=schedule.root, settings=schedule.settings, id=cycle.id, plan=cycle.plan, now=None)
    assert decide(job)["decision"] == "PROMOTE"
    said = job.result(stage)
    job.result_path(stage).unlink()
    records.write_result(
        job.result_path(stage), {**said, "passed": False, "reasons": ["age is 60 in serving"]}
    )
    found = decide(job)
    assert found["gate"]["decision"] == "PROMOTE"
    assert (found["decision"], found["reasons"][0]) == ("REJECT", f"{told}: age is 60 in serving")


def test_weighted_rows_are_not_held_against_a_rate_of_unweighted_ones(promoted):
    (cycle,) = promoted.cycles
    job = Job(root=promoted.root, settings=promoted.settings, id=cycle.id, plan=cycle.plan, now=None)
    answers = holdout.load(job.answers)
    assert 0.2 < scored(job, answers).prior < 0.8
    weights = np.linspace(0.5, 1.5, len(answers), dtype=np.float32)
    weighted = scored(job, dataclasses.replace(answers, weights=weights))
    assert weighted.prior is None
    assert weighted.rates == scored(job, answers).prior


# What a first model must beat: shares of the training labels, counted by hand.


def measured(**more):
    feature = FeatureStatistics(name="y", dtype="string", present=10, missing=0, **more)
    return SplitStatistics(examples=10, features={"y": feature})


def counted(*values, complete=True):
    return measured(values=ValueCounts(distinct=len(values), values=values, complete=complete))


def test_of_two_classes_it_is_the_share_of_the_second():
    label = Label(name="y", classes=("no", "yes"))
    assert prior_of(counted(("no", 7), ("yes", 3)), label) == pytest.approx(0.3)
    assert prior_of(counted(("no", 7)), label) == 0.0


def test_a_class_is_known_by_its_name_whatever_its_number():
    label = Label(name="y", classes=("1", "2", "3"), task="multiclass")
    np.testing.assert_allclose(prior_of(counted(("2", 6), ("1", 4)), label), [0.4, 0.6, 0.0])


def test_of_many_classes_it_is_each_ones_share():
    label = Label(name="y", classes=("a", "b", "c"), task="multiclass")
    np.testing.assert_allclose(prior_of(counted(("c", 5), ("a", 3), ("b", 2)), label), [0.3, 0.2, 0.5])


def test_of_items_it_is_each_ones_share_and_none_is_0():
    label = Label(name="y", classes=("a", "b", "c", "d"), task="retrieval")
    np.testing.assert_allclose(prior_of(counted(("c", 6), ("a", 2)), label), [0.2, 0.1, 0.6, 0.1])


def test_groups_and_tokens_have_none():
    assert prior_of(counted(("0", 5), ("1", 5)), Label(name="y", task="ranking", group_length=3)) is None
    assert prior_of(counted(), TokenLabel(name="t", parts=("tokens", "segments"), length=8)) is None


def test_of_numbers_it_is_the_mean():
    numeric = NumericSummary(minimum=0, maximum=9, mean=4.5, std=1, zeros=1, quantiles=(0, 9))
    assert prior_of(measured(numeric=numeric), Label(name="y", task="regression")) == 4.5


@pytest.mark.parametrize("statistics", [counted(complete=False), counted(), measured()])
def test_what_nobody_counted_is_not_known(statistics):
    assert prior_of(statistics, Label(name="y", classes=("no", "yes"))) is None


# What the machine lacks is no failure of a cycle, and no verdict on its model.


def night(tmp_path, stage, monkeypatch):
    """A job of one stage, and its root."""
    root = Root(path=tmp_path, name="trips")
    root.cycle("a").mkdir(parents=True)
    settings = types.SimpleNamespace(attempts=3, infra=Limits())
    monkeypatch.setattr(cycle, "STAGES", {"train": stage})
    now = datetime.datetime(2026, 11, 4, tzinfo=datetime.UTC)
    return Job(root=root, settings=settings, id="a", plan={}, now=lambda: now, publishes=True)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(24, "Too many open files"),
        OSError(5, "Input/output error"),
        PermissionError(13, "Permission denied", "answers.npz"),
        RuntimeError("ResourceExhaustedError: failed to allocate memory"),
    ],
)
@pytest.mark.parametrize("is_told", [False, True])
def test_a_stage_that_lacks_something_fails_no_cycle(tmp_path, monkeypatch, error, is_told):
    def stage(job):
        try:
            raise error
        except Exception:
            if not is_told:
                raise
            raise InputError("answers", received="a", expected="b", action="Restore them.") from None

    with pytest.raises(TryAgainError):
        cycle.run(night(tmp_path, stage, monkeypatch))
    assert not (tmp_path / "cycles" / "a" / records.FAILED).exists()


@pytest.mark.parametrize(
    ("reason", "limit", "is_verdict"),
    [
        (
            "the process was killed (SIGKILL), as the kernel does where memory runs out, while it started",
            None,
            False,
        ),
        ("the process raised MemoryError:  while it was loaded", None, False),
        ("the process raised MemoryError:  while it was loaded", 900, True),  # more than the config allows it
        ("the process crashed (SIGSEGV) while it was loaded", None, True),
        ("signature 'raw' is missing; the model has none", None, True),
    ],
)
def test_an_infra_check_that_lacks_memory_is_no_verdict(tmp_path, monkeypatch, reason, limit, is_verdict):
    job = night(tmp_path, None, monkeypatch)
    job.settings.infra = Limits(process_mib=limit)
    found = InfraResult(directory="a", against="", reasons=[reason], limits=job.settings.infra)
    monkeypatch.setattr(stages.check, "check", lambda *given, **more: found)
    monkeypatch.setattr(stages.requests_lib, "load", lambda path: None)
    if is_verdict:
        assert stages.check_serving(job, tmp_path, against=None) is found
        return
    with pytest.raises(TryAgainError, match="the infra check"):
        stages.check_serving(job, tmp_path, against=None)
