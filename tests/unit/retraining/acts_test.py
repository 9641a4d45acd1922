"""What a person decides about a cycle that the gate left open, and what is published is verified."""

import pathlib
import re
import shutil
import sys

import pytest

from pipeline.base.errors import InputError
from pipeline.publishing import publish, versions
from pipeline.report import terminal
from pipeline.retraining import cycle, operations, reconcile, records, status
from tests.shared.fixtures.schedules import Schedule, small_config

pytestmark = pytest.mark.slow


def undecided_config():
    config = small_config()
    config.gate.least_rows = 10_000
    return config


@pytest.fixture(scope="module")
def judged(promoted, warm_python, tmp_path_factory):
    """A second cycle, on which the gate could not decide. Not to be changed."""
    path = tmp_path_factory.mktemp("judged") / "root"
    shutil.copytree(promoted.path, path)
    schedule = Schedule(path=path, config=undecided_config(), now=promoted.now).later(hours=1)
    schedule.add(3)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "executable", str(warm_python))
        outcome = schedule.reconcile()
    assert (outcome.decision, outcome.version) == ("UNDECIDED", None)
    return schedule


@pytest.fixture
def open_cycle(judged, warm_python, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(warm_python))
    path = tmp_path / "root"
    shutil.copytree(judged.path, path)
    return Schedule(path=path, config=undecided_config(), now=judged.now).later(hours=1)


def clock(schedule):
    return lambda: schedule.now


def test_too_small_a_holdout_decides_nothing_and_says_so(judged):
    assert "10,000" in judged.cycles[-1].end["reasons"][0]
    assert judged.versions == [1]


def test_a_person_promotes_and_rolls_back_with_reasons(open_cycle):
    path, asked = open_cycle.path, open_cycle.settings
    version = operations.promote(path, asked, cycle="", reason="looked at it", clock=clock(open_cycle))
    assert (version, open_cycle.versions) == (2, [1, 2])
    again = operations.promote(path, asked, cycle="", reason="looked at it", clock=clock(open_cycle))
    assert again == 2
    card = (versions.path_of(open_cycle.root.serving, 2) / "MODEL_CARD.md").read_text()
    assert "a person promoted the model: looked at it" in card
    known = status.survey(open_cycle.root, asked, now=open_cycle.now)
    table = terminal.render(status.status(known, now=open_cycle.now))
    assert re.search(rf"{open_cycle.cycles[-1].id} .* UNDECIDED, promoted by a person +2 ", table)
    back = operations.rollback(path, asked, to=1, reason="it was worse", clock=clock(open_cycle))
    assert (back, versions.newest(open_cycle.root.serving)) == (3, 3)
    assert open_cycle.cycles[-1].id in publish.quarantined(open_cycle.root.serving)
    with pytest.raises(InputError, match=open_cycle.cycles[-1].id):
        operations.promote(path, asked, cycle="", reason="again", clock=clock(open_cycle))
    assert open_cycle.reconcile().did == "nothing"
    acts_told = [each["act"] for each in records.audit_entries(open_cycle.root.audit) if "reason" in each]
    assert acts_told == ["promoted", "promoted", "rolled_back", "promoted"]


def test_a_cycle_that_a_busy_machine_slowed_is_checked_again_and_published(open_cycle):
    folder = open_cycle.cycles[-1].folder
    slow = {**records.read_result(folder / "infra.json"), "passed": False, "reasons": ["slow, 4.6 times"]}
    records.write_result(folder / "infra.json", slow, anew=True)
    path, asked = open_cycle.path, open_cycle.settings
    assert operations.promote(path, asked, cycle="", reason="was busy", clock=clock(open_cycle)) == 2
    assert records.read_result(folder / "infra.json")["passed"]
    assert "checked again" in open_cycle.acts()


def test_a_cycle_that_fails_the_infra_check_again_is_never_published(open_cycle):
    folder = open_cycle.cycles[-1].folder
    slow = {**records.read_result(folder / "infra.json"), "passed": False, "reasons": ["too large"]}
    records.write_result(folder / "infra.json", slow, anew=True)
    open_cycle.config.infra = {"disk_mib": 0.001}
    with pytest.raises(InputError, match=r"an infra check that failed again: its size on disk"):
        operations.promote(
            open_cycle.path, open_cycle.settings, cycle="", reason="x", clock=clock(open_cycle)
        )
    assert (open_cycle.versions, records.read_result(folder / "infra.json")) == ([1], slow)


def test_a_damaged_champion_is_published_again_from_its_cycle(schedule):
    truncate(versions.path_of(schedule.root.serving, 1) / "variables/variables.data-00000-of-00001")
    with pytest.raises(InputError, match=r"the champion, version 1 .*variables\.data") as error:
        schedule.reconcile()
    cycle = re.search(r"promote --cycle=(\w+) ", error.value.action)[1]
    path, asked = schedule.path, schedule.settings
    assert operations.promote(path, asked, cycle=cycle, reason="damaged", clock=clock(schedule)) == 2
    assert (schedule.versions, schedule.reconcile().did) == ([2], "nothing")


def test_a_cycle_that_is_not_there_cannot_be_promoted(open_cycle):
    with pytest.raises(InputError, match=r"--cycle=zzz.*status"):
        operations.promote(
            open_cycle.path, open_cycle.settings, cycle="zzz", reason="x", clock=clock(open_cycle)
        )


def test_a_version_that_does_not_serve_is_taken_back_and_the_one_before_is_served(open_cycle, monkeypatch):
    from pipeline.retraining import decision

    put = decision.put_version

    def put_damaged(job, **more):
        version = put(job, **more)
        truncate(versions.path_of(job.root.serving, version) / "variables/variables.data-00000-of-00001")
        return version

    monkeypatch.setattr(decision, "put_version", put_damaged)
    with pytest.raises(InputError, match=r"version 2: .*It was taken back"):
        operations.promote(
            open_cycle.path, open_cycle.settings, cycle="", reason="looked", clock=clock(open_cycle)
        )
    assert open_cycle.versions == [1]
    assert open_cycle.acts()[-1] == "taken_back"
    assert open_cycle.reconcile().did == "nothing"


def truncate(path: pathlib.Path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def test_a_truncated_export_fails_the_cycle_before_it_is_judged(schedule, monkeypatch):
    schedule.add(3)

    def truncated_export(job):
        said = cycle.export(job)
        truncate(job.export / "variables/variables.data-00000-of-00001")
        return said

    monkeypatch.setattr(cycle, "STAGES", {**cycle.STAGES, "export": truncated_export})
    with pytest.raises(InputError, match="variables"):
        schedule.reconcile()
    assert schedule.cycles[-1].failure["stage"] == "parity"
    assert schedule.versions == [1]


def test_nobody_promotes_what_failed_parity(schedule):
    path = schedule.cycles[0].folder / "parity.json"
    said = records.read_result(path)
    path.unlink()
    records.write_result(path, {**said, "passed": False, "reasons": ["age is 60 in serving"]})
    with pytest.raises(InputError, match="a failed parity check: age is 60 in serving"):
        operations.promote(schedule.path, schedule.settings, cycle="", reason="hurry", clock=clock(schedule))


def test_a_hold_during_a_cycle_stops_it_before_it_publishes(schedule, monkeypatch):
    schedule.add(3)
    schedule.config.gate.floors = {}

    def held_and_promoted(job):
        records.put_hold(job.root, reason="wait", by="a person", at=schedule.now)
        return {**cycle.decide(job), "decision": "PROMOTE"}

    monkeypatch.setattr(cycle, "STAGES", {**cycle.STAGES, "decide": held_and_promoted})
    outcome = schedule.reconcile()
    assert (outcome.did, schedule.versions) == ("held", [1])
    records.release_hold(schedule.root, reason="go", at=schedule.now)
    assert (schedule.reconcile().version, schedule.versions) == (2, [1, 2])


def test_gc_keeps_what_is_served_and_every_receipt(open_cycle):
    open_cycle.config.keep.cycles = 1
    gone = operations.gc(open_cycle.path, open_cycle.settings, clock=clock(open_cycle))
    assert gone == {"versions": [], "cycles": []}  # the older cycle is served
    operations.promote(open_cycle.path, open_cycle.settings, cycle="", reason="x", clock=clock(open_cycle))
    open_cycle.config.keep.versions = 1
    open_cycle.config.gate_anchor = 2
    gone = operations.gc(open_cycle.path, open_cycle.settings, clock=clock(open_cycle))
    first = open_cycle.cycles[0]
    assert gone == {"versions": [1], "cycles": [first.id]}
    assert not (first.folder / "run").exists()
    assert (first.folder / "decide.json").exists()
    assert open_cycle.versions == [2]


def test_a_backfill_judges_the_past_and_publishes_nothing(open_cycle):
    open_cycle.config.gate.least_rows = 100
    (outcome,) = reconcile.backfill(
        open_cycle.path,
        open_cycle.settings,
        start="2026-11-02",
        end="2026-11-02",
        publishes=False,
        clock=clock(open_cycle),
    )
    begun = next(each for each in open_cycle.cycles if each.id == outcome.cycle)
    assert begun.plan["backfill"]
    assert begun.plan["champion"] == {}  # version 1 was trained on what is judged by here
    assert (outcome.decision, outcome.version, open_cycle.versions) == ("PROMOTE", None, [1])
    with pytest.raises(InputError, match=r"--from=2027 --to="):
        list(
            reconcile.backfill(
                open_cycle.path,
                open_cycle.settings,
                start="2027",
                end="",
                publishes=False,
                clock=clock(open_cycle),
            )
        )


def test_a_cycle_that_was_left_before_it_was_judged_cannot_be_promoted(open_cycle):
    begun = open_cycle.cycles[-1]
    for stage in ("decide", "infra", "parity"):
        (begun.folder / f"{stage}.json").unlink()
        with pytest.raises(InputError, match=f"it ended before stage '{stage}'"):
            operations.promote(
                open_cycle.path, open_cycle.settings, cycle="", reason="x", clock=clock(open_cycle)
            )
    assert open_cycle.versions == [1]


def test_an_export_that_is_not_the_one_that_was_judged_is_not_published(open_cycle):
    first, second = open_cycle.cycles
    shutil.rmtree(second.folder / "export")
    shutil.copytree(first.folder / "export", second.folder / "export")
    with pytest.raises(InputError, match=rf"which cycle {second.id} has evaluated"):
        operations.promote(
            open_cycle.path, open_cycle.settings, cycle="", reason="x", clock=clock(open_cycle)
        )
    assert open_cycle.versions == [1]


def test_answers_of_another_cycle_decide_nothing(open_cycle):
    first, second = open_cycle.cycles
    shutil.copy(first.folder / "answers.npz", second.folder / "answers.npz")
    for stage in ("ended", *[*cycle.STAGES][6:]):
        (second.folder / f"{stage}.json").unlink()
    with pytest.raises(InputError, match=r"answers\.npz: received those of another model"):
        open_cycle.reconcile()
    assert open_cycle.versions == [1]


def test_a_kill_between_taking_back_and_the_log_of_it_stops_nothing(open_cycle):
    operations.promote(open_cycle.path, open_cycle.settings, cycle="", reason="x", clock=clock(open_cycle))
    assert open_cycle.acts()[-1] == "published"
    publish.take_back(open_cycle.root.serving, 2, reason="it does not serve", at=open_cycle.now.isoformat())
    assert open_cycle.reconcile().did == "nothing"
    assert open_cycle.versions == [1]


def test_a_backfill_waits_for_the_release_too(open_cycle):
    records.put_hold(open_cycle.root, reason="wait", by="a person", at=open_cycle.now)
    (outcome,) = reconcile.backfill(
        open_cycle.path, open_cycle.settings, start="", end="", publishes=True, clock=clock(open_cycle)
    )
    assert (outcome.did, len(open_cycle.cycles)) == ("held", 2)


def test_gc_of_a_run_on_another_disk_takes_the_link_away(open_cycle, tmp_path):
    first = open_cycle.cycles[0]
    (first.folder / "run").rename(tmp_path / "elsewhere")
    (first.folder / "run").symlink_to(tmp_path / "elsewhere")
    operations.promote(open_cycle.path, open_cycle.settings, cycle="", reason="x", clock=clock(open_cycle))
    open_cycle.config.keep.cycles = open_cycle.config.keep.versions = 1
    open_cycle.config.gate_anchor = 2
    assert operations.gc(open_cycle.path, open_cycle.settings, clock=clock(open_cycle))["cycles"] == [
        first.id
    ]
    assert not (first.folder / "run").is_symlink()
    assert (tmp_path / "elsewhere").is_dir()
