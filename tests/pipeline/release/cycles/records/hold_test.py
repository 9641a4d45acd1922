"""HOLD stops everything until a person releases it."""

import datetime

import pytest

from pipeline.data.errors import InputError
from pipeline.release.cycles.records import audit, hold
from pipeline.release.cycles.records.root import Root

NOON = datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.UTC)


def test_a_release_accepts_the_spans_that_it_was_held_for(tmp_path):
    root = Root(path=tmp_path, name="taxi")
    hold.put(root, reason="fares moved", by="drift", at=NOON, spans=[("2026-11-01", "ab")])
    assert hold.why(root)["reason"] == "fares moved"
    hold.release(root, reason="new tariff", at=NOON)
    assert hold.why(root) is None
    entries = audit.entries(root.audit)
    assert [entry["act"] for entry in entries] == ["held", "released"]
    assert hold.accepted(entries) == {("2026-11-01", "ab")}


def test_the_first_reason_stays(tmp_path):
    root = Root(path=tmp_path, name="taxi")
    hold.put(root, reason="fares moved", by="drift", at=NOON)
    hold.put(root, reason="holiday", by="a person", at=NOON)
    assert hold.why(root)["reason"] == "fares moved"


def test_a_file_that_a_person_wrote_holds_too(tmp_path):
    root = Root(path=tmp_path, name="taxi")
    root.hold.write_text("until  Monday\n")
    assert hold.why(root) == {"by": "a file", "reason": "until Monday", "at": ""}
    root.hold.write_text("")
    assert hold.why(root)["reason"] == "no reason given"
    hold.release(root, reason="it is Monday", at=NOON)
    assert hold.why(root) is None


def test_what_is_not_held_cannot_be_released(tmp_path):
    with pytest.raises(InputError, match="nothing is held"):
        hold.release(Root(path=tmp_path, name="taxi"), reason="", at=NOON)


@pytest.mark.parametrize(
    "text",
    ['{"at": 5}', '{"reason": null}', '{"spans": 5}', '{"spans": [[["a"], "b"]]}', "[1, 2]", "[" * 100_000],
)
def test_what_a_person_wrote_in_another_form_is_taken_as_it_is(tmp_path, text):
    root = Root(path=tmp_path, name="taxi")
    root.hold.write_text(text)
    assert hold.why(root) == {"by": "a file", "reason": text, "at": ""}
    hold.release(root, reason="it is over", at=NOON)
    assert hold.accepted(audit.entries(root.audit)) == set()
