"""HOLD stops everything until a person releases it."""

import datetime

import pytest

from pipeline.base.errors import InputError
from pipeline.retraining import records
from pipeline.retraining.records import Root

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
