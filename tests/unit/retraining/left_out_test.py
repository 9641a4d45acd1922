"""A span that is left out is named by each command, and somebody is notified of it once."""

import datetime
import json
import pathlib

import pytest

from pipeline.retraining import datasets, left_out, records, status
from pipeline.retraining import plan as plan_lib
from pipeline.retraining.datasets import Span
from pipeline.retraining.records import Root
from tests.shared import small_spans
from tests.unit.retraining.settings_test import parsed

NOW = datetime.datetime(2026, 11, 4, 6, tzinfo=datetime.UTC)
REFUSED = "rows that cannot be converted: received 34 of 673 rows; expected 0.06. Nothing was published."


def span(name: str, *, why: str = REFUSED, content: str = "a") -> Span:
    return Span(name=name, fingerprint=content, raw=None, unusable=why, result=None)


class Told:
    """A root, and a command that writes down its notifications."""

    def __init__(self, path: pathlib.Path, **config: object) -> None:
        self._got = path / "got"
        command = f"sh -c 'cat >> {self._got}; echo >> {self._got}'"
        self.root, self._settings = Root(path=path, name="taxi"), parsed(notify__command=command, **config)

    def tell(self, *spans: Span) -> list[list[str]]:
        """Returns the names of spans in each notification until now."""
        left_out.tell(self.root, self._settings, spans, at=NOW)
        lines = self._got.read_text().splitlines() if self._got.exists() else []
        events = [json.loads(line) for line in lines]
        assert {event["event"] for event in events} <= {"left_out"}
        return [[each["name"] for each in event["spans"]] for event in events]

    def last(self) -> dict[str, str]:
        return left_out.last_told(records.audit_entries(self.root.audit))


def test_one_notification_names_each_new_span(tmp_path):
    told = Told(tmp_path)
    assert told.tell() == []
    assert told.tell(span("2"), span("3")) == [["2", "3"]]
    assert told.tell(span("2"), span("3")) == [["2", "3"]]
    assert told.tell(span("2"), span("3"), span("4")) == [["2", "3"], ["4"]]
    assert len(records.audit_entries(told.root.audit)) == 2


def test_a_span_that_was_corrected_is_told_no_more_and_another_fault_of_it_is_new(tmp_path):
    told = Told(tmp_path)
    told.tell(span("2"))
    assert told.last() == {"2": REFUSED}
    told.tell()
    assert told.last() == {}
    assert told.tell(span("2")) == [["2"]]  # the old files again: this is known
    assert told.tell(span("2", content="b")) == [["2"], ["2"]]


def test_a_span_that_a_person_excluded_is_recorded_without_a_notification(tmp_path):
    told = Told(tmp_path, spans__exclude=("2",))
    assert told.tell(span("2", why="config.spans.exclude names it")) == []
    assert told.last() == {"2": "config.spans.exclude names it"}


def test_a_line_has_the_first_sentence_of_the_reason():
    assert list(left_out.lines({"2": REFUSED})) == [
        "span 2 is left out: rows that cannot be converted: received 34 of 673 rows; expected 0.06"
    ]
    first, *rest = left_out.lines({f"{number:02}": "it has no bytes" for number in range(15)})
    assert first.startswith("3 older spans are left out too")
    assert (len(rest), rest[-1]) == (12, "span 14 is left out: it has no bytes")


def window(names: str, *, bad: str, **config: object) -> plan_lib.Window:
    spans = [span(name, why=REFUSED if name in bad else "") for name in names]
    return plan_lib.choose_window(spans, parsed(**config))


def test_spans_that_are_older_than_the_window_leave_no_gap():
    assert list(window("abcdefg", bad="bdg", window__last=2).gaps) == ["d", "g"]
    assert list(window("ab", bad="ab").gaps) == ["a", "b"]


@pytest.mark.parametrize(
    ("names", "bad", "line"),
    [
        ("abcd", "", "trained on 3 spans, a to c, evaluated on span d, the first model"),
        ("abcd", "b", "trained on 2 of 3 spans, a to c (left out: b), evaluated on span d, the first model"),
        ("abcd", "d", "trained on 2 spans, a to b, evaluated on span c, the first model"),
        (
            "abcdefgh",
            "bcdeg",
            "trained on 2 of 6 spans, a to f (left out: b, c, d and 1 more), evaluated on span h, "
            "the first model",
        ),
    ],
)
def test_the_line_of_a_cycle_names_the_holes(names, bad, line):
    chosen = window(names, bad=bad)
    roles = {"training": chosen.training, "holdout": chosen.holdout}
    assert (
        status.window_line(
            {
                "spans": [
                    {"name": one.name, "roles": [role for role, spans in roles.items() if one in spans]}
                    for one in chosen.spans
                ],
                "left_out": [{"name": one.name, "why": one.unusable} for one in chosen.left_out],
                "champion": {},
            }
        )
        == line
    )


def test_plan_and_status_end_with_what_is_left_out(tmp_path):
    small_spans.write_schema(tmp_path)
    for number in range(3):
        small_spans.write_span(tmp_path, number)
    small_spans.folder(tmp_path, "2026-11-02").joinpath("trips.csv").write_text("")
    root, settings = records.existing_root(tmp_path, name="trips"), parsed(name="trips")
    spans = datasets.survey_spans(root, settings.sources(root))
    plan = plan_lib.make(root, settings, spans, now=NOW)
    expected = "span 2026-11-02 is left out: it has no bytes"
    assert status.plan(plan)[-1].parts == [expected]
    left_out.tell(root, settings, plan.window.missed, at=NOW)
    known = status.survey(root, settings, now=NOW)
    assert status.status(known, now=NOW)[-1].parts == [expected]
    assert status.as_json(known)["left_out"] == {"2026-11-02": "it has no bytes"}
