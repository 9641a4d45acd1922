"""The records of a root: cycles, receipts, holds and their audit."""

import datetime
import multiprocessing
import os

import pytest

from pipeline.base.errors import InputError, TryAgainError
from pipeline.publishing import publish
from pipeline.retraining import records
from pipeline.retraining.records import Root
from tests.shared import plain_export

# One process at a time retrains in a root.


def test_who_comes_second_is_told_to_try_again(tmp_path):
    second = records.open_root(tmp_path, name="taxi")
    with records.open_root(tmp_path, name="taxi"), pytest.raises(TryAgainError, match="--root="):
        second.__enter__()
    with records.open_root(tmp_path, name="taxi") as opened:
        assert opened.serving == tmp_path / "serving" / "taxi"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
def test_a_name_that_is_no_folder_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"config\.name"):
        records.existing_root(tmp_path, name=name)


def test_a_root_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        records.existing_root(tmp_path / "gone", name="taxi")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="a file"):
        records.existing_root(tmp_path / "file", name="taxi")


# Receipts are written once and carry their own digest.


def test_what_was_done_once_is_not_told_otherwise_later(tmp_path):
    path = tmp_path / "train.json"
    assert records.write_result(path, {"loss": 0.5}) == {"loss": 0.5}
    assert records.write_result(path, {"loss": 0.1}) == {"loss": 0.5}
    assert records.read_result(path) == {"loss": 0.5}


def test_without_a_file_there_is_no_receipt(tmp_path):
    assert records.read_result(tmp_path / "train.json") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("0.5", "0.4"),
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: "[" * 100_000,
    ],
    ids=["changed", "cut", "empty", "list", "deep"],
)
def test_a_damaged_receipt_is_named(tmp_path, damage):
    path = tmp_path / "train.json"
    records.write_result(path, {"loss": 0.5})
    path.write_text(damage(path.read_text()))
    with pytest.raises(InputError, match=r"stage result .*train\.json"):
        records.read_result(path)


def test_a_folder_in_its_place_is_named(tmp_path):
    (tmp_path / "train.json").mkdir()
    with pytest.raises(InputError, match=r"train\.json"):
        records.read_result(tmp_path / "train.json")


def test_a_receipt_of_another_cycle_is_named(tmp_path):
    one, other = tmp_path / "a" / "train.json", tmp_path / "b" / "train.json"
    for path in (one, other):
        path.parent.mkdir()
    records.write_result(one, {"loss": 0.5})
    other.write_bytes(one.read_bytes())
    with pytest.raises(InputError, match=r"b/train\.json.*of something else"):
        records.read_result(other)
    (tmp_path / "a").rename(tmp_path / "c")
    with pytest.raises(InputError, match=r"c/train\.json.*of something else"):
        records.read_result(tmp_path / "c" / "train.json")


# HOLD stops everything until a person releases it.

NOON = datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.UTC)


def test_a_release_accepts_the_spans_that_it_was_held_for(tmp_path):
    root = Root(path=tmp_path, name="taxi")
    records.put_hold(root, reason="fares moved", by="drift", at=NOON, spans=[("2026-11-01", "ab")])
    assert records.why_on_hold(root)["reason"] == "fares moved"
    records.release_hold(root, reason="new tariff", at=NOON)
    assert records.why_on_hold(root) is None
    entries = records.audit_entries(root.audit)
    assert [entry["act"] for entry in entries] == ["held", "released"]
    assert records.accepted_spans(entries) == {("2026-11-01", "ab")}


def test_the_first_reason_stays(tmp_path):
    root = Root(path=tmp_path, name="taxi")
    records.put_hold(root, reason="fares moved", by="drift", at=NOON)
    records.put_hold(root, reason="holiday", by="a person", at=NOON)
    assert records.why_on_hold(root)["reason"] == "fares moved"


def test_a_file_that_a_person_wrote_holds_too(tmp_path):
    root = Root(path=tmp_path, name="taxi")
    root.hold.write_text("until  Monday\n")
    assert records.why_on_hold(root) == {"by": "a file", "reason": "until Monday", "at": ""}
    root.hold.write_text("")
    assert records.why_on_hold(root)["reason"] == "no reason given"
    records.release_hold(root, reason="it is Monday", at=NOON)
    assert records.why_on_hold(root) is None


def test_what_is_not_held_cannot_be_released(tmp_path):
    with pytest.raises(InputError, match="nothing is held"):
        records.release_hold(Root(path=tmp_path, name="taxi"), reason="", at=NOON)


@pytest.mark.parametrize(
    "text",
    ['{"at": 5}', '{"reason": null}', '{"spans": 5}', '{"spans": [[["a"], "b"]]}', "[1, 2]", "[" * 100_000],
)
def test_what_a_person_wrote_in_another_form_is_taken_as_it_is(tmp_path, text):
    root = Root(path=tmp_path, name="taxi")
    root.hold.write_text(text)
    assert records.why_on_hold(root) == {"by": "a file", "reason": text, "at": ""}
    records.release_hold(root, reason="it is over", at=NOON)
    assert records.accepted_spans(records.audit_entries(root.audit)) == set()


# The audit log is only ever added to, also by two at once and behind a kill.


def acts(path):
    return [entry["act"] for entry in records.audit_entries(path)]


def add_many(path, name):
    for number in range(30):
        records.add_entry(path, name, at=NOON, number=number)


def test_entries_keep_their_order(tmp_path):
    path = tmp_path / "audit.jsonl"
    records.add_entry(path, "held", at=NOON, reason="ünicode\n and a new line")
    records.add_entry(path, "released", at=NOON)
    assert records.audit_entries(path) == [
        {"at": NOON.isoformat(), "act": "held", "reason": "ünicode\n and a new line"},
        {"at": NOON.isoformat(), "act": "released"},
    ]


def test_an_entry_that_a_killed_process_left_unfinished_is_dropped(tmp_path):
    path = tmp_path / "audit.jsonl"
    records.add_entry(path, "held", at=NOON)
    records.add_entry(path, "released", at=NOON)
    path.write_bytes(path.read_bytes()[:-9])
    assert acts(path) == ["held"]
    records.add_entry(path, "published", at=NOON)
    assert acts(path) == ["held", "published"]


def test_a_changed_entry_is_named(tmp_path):
    path = tmp_path / "audit.jsonl"
    records.add_entry(path, "held", at=NOON)
    records.add_entry(path, "released", at=NOON)
    path.write_text(path.read_text().replace("held", "hold"))
    with pytest.raises(InputError, match=r"line 1 of .*audit\.jsonl"):
        records.audit_entries(path)


def test_what_was_said_is_not_said_again_where_it_is_asked_for_once(tmp_path):
    path = tmp_path / "audit.jsonl"
    later = NOON + datetime.timedelta(hours=1)
    records.add_entry_once(path, "published", at=NOON, version=1)
    records.add_entry_once(path, "published", at=later, version=1)
    records.add_entry_once(path, "published", at=later, version=2)
    assert [entry["version"] for entry in records.audit_entries(path)] == [1, 2]


def test_two_that_write_at_once_lose_nothing(tmp_path):
    path = tmp_path / "audit.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=add_many, args=(path, name)) for name in ("one", "other")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    for name in ("one", "other"):
        numbers = [entry["number"] for entry in records.audit_entries(path) if entry["act"] == name]
        assert numbers == list(range(30))


# Records ahead of the clock stop a root, until the clock is right or a person says that it is.

FAR = datetime.datetime(2031, 1, 1, tzinfo=datetime.UTC)


def test_a_clock_that_was_set_back_is_named(tmp_path):
    root = Root(path=tmp_path, name="taxi")
    records.add_entry(root.audit, "published", at=NOON)
    records.check_clock(root, NOON)
    records.check_clock(root, NOON - datetime.timedelta(seconds=30))
    with pytest.raises(InputError, match=r"the clock: received 2026-10-31T12:00:00.*Set the clock"):
        records.check_clock(root, NOON - datetime.timedelta(days=1))


def cycle_at(root, name, at):
    records.write_result(root.cycle(name) / "plan.json", {"cycle": name, "at": at.isoformat()})


def test_what_was_recorded_ahead_of_a_right_clock_counts_as_done_now(tmp_path):
    root = Root(path=tmp_path, name="taxi")
    for name in ("early", "far", "late"):
        root.cycle(name).mkdir(parents=True)
    cycle_at(root, "early", NOON - datetime.timedelta(days=1))
    cycle_at(root, "far", FAR)
    export = plain_export.write(tmp_path / "export")
    publish.publish(export, root.serving, cycle="far", at=FAR.isoformat())
    records.add_entry(root.audit, "published", at=FAR, version=1)
    with pytest.raises(InputError, match=r"a time after 2031-01-01T00:00:00.*pipeline\.retrain clock"):
        records.check_clock(root, NOON)
    accepted = records.accept_clock(root, reason="--now was a typing error", at=NOON)
    assert (accepted.cycles, accepted.versions) == (("far",), (1,))
    records.check_clock(root, NOON)
    cycle_at(root, "late", NOON + datetime.timedelta(hours=1))
    assert [(each.id, each.plan["at"][:13]) for each in records.cycle_history(root)] == [
        ("early", "2026-10-31T12"),
        ("far", "2026-11-01T12"),
        ("late", "2026-11-01T13"),
    ]
    assert records.publications(root)[1]["at"] == NOON.isoformat()
    with pytest.raises(InputError, match="nothing to accept"):
        records.accept_clock(root, reason="again", at=NOON + datetime.timedelta(hours=2))


@pytest.mark.parametrize("what", ["entry", "cycle", "version"])
def test_a_single_record_ahead_of_the_clock_is_found(tmp_path, what):
    root = Root(path=tmp_path, name="taxi")
    if what == "entry":
        records.add_entry(root.audit, "held", at=FAR)
    elif what == "cycle":
        root.cycle("far").mkdir(parents=True)
        cycle_at(root, "far", FAR)
    else:
        publish.publish(
            plain_export.write(tmp_path / "export"), root.serving, cycle="far", at=FAR.isoformat()
        )
    assert records.ahead_of_clock(root, FAR) is None
    assert records.ahead_of_clock(root, NOON).last == FAR.isoformat()
    records.accept_clock(root, reason="the clock was wrong", at=NOON)
    records.check_clock(root, NOON)


@pytest.mark.parametrize(
    "act", [records.audit_entries, lambda path: records.add_entry(path, "held", at=NOON)]
)
def test_a_pipe_in_its_place_is_not_waited_for(tmp_path, act):
    path = tmp_path / "audit.jsonl"
    os.mkfifo(path)
    with pytest.raises(OSError, match=r"audit\.jsonl"):
        act(path)
