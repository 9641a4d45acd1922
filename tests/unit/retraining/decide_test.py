"""What a first model must beat, and how often rows of a holdout have judged before."""

import dataclasses

import numpy as np
import pytest

from pipeline.retraining import holdout, records
from pipeline.retraining.decision import decide, reuses, scored
from pipeline.retraining.job import Job
from pipeline.retraining.records import Root
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
    assert scored(job, dataclasses.replace(answers, weights=weights)).prior is None
