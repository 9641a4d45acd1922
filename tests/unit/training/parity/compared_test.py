"""Errors and what is made of them."""

import numpy as np
import pytest

from pipeline.training.parity.compare import Difference, comparison, relative_error


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
    return Difference(name=name, errors={"x": error}, tolerances={"x": 0.5})


def test_the_worst_comes_first_and_only_what_exceeds_its_tolerance_is_found():
    found = comparison(
        "n", "t", [difference("fine", 0.1), difference("worst", np.inf), difference("bad", 0.6)], advice=""
    )
    assert [each.name for each in found.differences] == ["worst", "bad", "fine"]
    assert [each.name for each in found.found] == ["worst", "bad"]
