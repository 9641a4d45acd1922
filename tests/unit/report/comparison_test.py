"""Errors, rows that differ, and comparisons in words and as JSON."""

import numpy as np
import pytest

from pipeline.report import terminal
from pipeline.report.comparison import (
    Agreement,
    Comparison,
    Difference,
    as_json,
    comparison,
    differing_rows,
    format_verdict,
    relative_error,
    section,
)


def test_the_error_is_that_of_the_norms():
    assert relative_error([3.0, 4.0], [3.0, 0.0]) == pytest.approx(4 / 3)
    assert relative_error(np.float32([[1, 1]]), np.float32([[1, 1]])) == 0.0


@pytest.mark.parametrize(
    ("found", "exact", "error"),
    [
        ([0.0], [0.0], 0.0),
        ([1.0], [0.0], np.inf),
        ([0.0], [2.0], 1.0),
        ([np.nan], [1.0], np.inf),
        ([np.inf], [np.inf], np.inf),
        ([], [], 0.0),
        ([1e200], [-1e200], np.inf),  # the norm itself is too large
    ],
)
def test_odd_numbers(found, exact, error):
    with np.errstate(over="ignore", invalid="ignore"):
        assert relative_error(found, exact) == error


def difference(name: str, error: float) -> Difference:
    return Difference(name=name, errors={"outputs": error}, tolerances={"outputs": 0.5})


def test_the_worst_comes_first_and_only_what_exceeds_its_tolerance_is_found():
    found = comparison(
        "n", "t", [difference("fine", 0.1), difference("worst", np.inf), difference("bad", 0.6)], advice=""
    )
    assert [each.name for each in found.differences] == ["worst", "bad", "fine"]
    assert [each.name for each in found.found] == ["worst", "bad"]


ONE = np.float32([[1, 2], [3, 4], [0, 5]])


def test_rows_of_other_bits():
    next_to_4 = np.nextafter(np.float32(4), np.float32(5))
    assert differing_rows(ONE, ONE.copy()).sum() == 0
    other = np.float32([[1, 2], [3, next_to_4], [-0.0, 5]])
    assert differing_rows(ONE, other).tolist() == [False, True, True]
    assert differing_rows(ONE.astype(np.float64), ONE).sum() == 3
    assert differing_rows(ONE[:0], ONE[:0]).sum() == 0


def test_rows_beyond_what_is_allowed():
    found = ONE + np.float32([[0, 0.5], [np.nan, 0], [0, 2]])
    assert differing_rows(found, ONE, allowed=0.5).tolist() == [False, True, True]
    assert differing_rows(found, ONE, allowed=ONE).tolist() == [False, True, False]
    assert differing_rows(found[:, 0], ONE, allowed=9.0).sum() == 3  # of another shape


def test_rows_are_counted_over_batches():
    found = Agreement()
    for shift in (0, 0.5, 0.25):
        found.add(ONE + np.float32(shift), ONE)
    assert found == Agreement(rows=9, differing=6, worst=0.5)


AGREES = comparison("one", "a against b", [difference(f"d{n}", n / 100) for n in range(8)], advice="Never.")
DIFFERS = comparison(
    "two", "c against d", [difference("worst", 2.0), difference("fine", 0.1)], advice="Do it."
)
SKIPPED = Comparison(name="three", what="e against f", skipped="there is none")


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
