"""The audit log is only ever added to, also by two at once and behind a kill."""

import datetime
import multiprocessing
import os

import pytest

from pipeline.base.errors import InputError
from pipeline.retraining import records

NOON = datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.UTC)


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


def test_a_clock_that_was_set_back_is_named(tmp_path):
    path = tmp_path / "audit.jsonl"
    records.add_entry(path, "published", at=NOON)
    records.check_clock(path, NOON)
    records.check_clock(path, NOON - datetime.timedelta(seconds=30))
    with pytest.raises(InputError, match=r"the clock: received 2026-10-31T12:00:00.*Set the clock"):
        records.check_clock(path, NOON - datetime.timedelta(days=1))


@pytest.mark.parametrize(
    "act", [records.audit_entries, lambda path: records.add_entry(path, "held", at=NOON)]
)
def test_a_pipe_in_its_place_is_not_waited_for(tmp_path, act):
    path = tmp_path / "audit.jsonl"
    os.mkfifo(path)
    with pytest.raises(OSError, match=r"audit\.jsonl"):
        act(path)
