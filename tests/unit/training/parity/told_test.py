"""Comparisons in words, and as JSON."""

from pipeline.report import terminal
from pipeline.training.parity.compare import (
    Comparison,
    Difference,
    as_json,
    comparison,
    format_verdict,
    section,
)


def difference(name: str, error: float) -> Difference:
    return Difference(name=name, errors={"outputs": error}, tolerances={"outputs": 0.5})


AGREES = comparison("one", "a against b", [difference(f"d{n}", n / 100) for n in range(8)], advice="Never.")
DIFFERS = comparison(
    "two", "c against d", [difference("worst", 2.0), difference("fine", 0.1)], advice="Do it."
)
SKIPPED = Comparison(name="three", told="e against f", skipped="there is none")


def lines(comparison: Comparison) -> list[str]:
    return terminal.render([section(comparison)]).splitlines()


def test_what_agrees_shows_the_five_that_differ_most():
    told = lines(AGREES)
    assert told[0] == "one            agrees: a against b"
    assert told[1] == "    d7: outputs 0.07 (at most 0.5)"
    assert told[-1] == "    … and 3 that differ less"


def test_what_differs_is_marked_and_followed_by_what_to_do():
    assert lines(DIFFERS) == [
        "two            DIFFERS: c against d",
        "  ! worst: outputs 2 (at most 0.5)",
        "    fine: outputs 0.1 (at most 0.5)",
        "  Do it.",
    ]


def test_the_verdict_names_the_worst():
    assert format_verdict([AGREES, SKIPPED]) == f"verdict: all agree (one); not compared: {SKIPPED.name}"
    assert format_verdict([AGREES, DIFFERS, SKIPPED]) == "verdict: two differs; the worst: worst"
    assert lines(SKIPPED) == ["three          not compared: there is none"]


def test_every_error_is_in_the_json():
    document = as_json([AGREES, DIFFERS, SKIPPED])
    assert [each["differs"] for each in document["comparisons"]] == [False, True, False]
    assert len(document["comparisons"][0]["differences"]) == 8
    assert document["comparisons"][1]["differences"][0] == {
        "name": "worst",
        "errors": {"outputs": 2.0},
        "tolerances": {"outputs": 0.5},
    }
