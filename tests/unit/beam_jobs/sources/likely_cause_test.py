"""Many rows that cannot be read have one cause, and a flag that helps."""

import pytest

from beam_jobs.sources.source import cause_of_names, check_readable, likely_cause
from pipeline.base.errors import InputError


@pytest.mark.parametrize(
    ("reason", "flag"),
    [
        ("3 cells in place of 1", "--delimiter"),
        ("3 cells in place of 1", "--header=no"),
        ("not UTF-8", "--encoding"),
        ("not a JSON object (Expecting value)", "--format"),
    ],
)
def test_the_flag_is_named(reason: str, flag: str):
    with pytest.raises(InputError, match=r"6 of 100 rows that cannot be read \(6 × ") as raised:
        check_readable({reason: 6}, rows=100, path="a.csv")
    assert flag in raised.value.action


def test_few_such_rows_are_left_to_the_rows():
    check_readable({"not UTF-8": 5}, rows=100, path="a.csv")
    assert likely_cause({"not UTF-8": 5}, rows=100) == ""


def test_names_that_hold_several_are_a_matter_of_the_delimiter():
    assert "--delimiter" in cause_of_names(["city;x"], otherwise="no")
    assert cause_of_names(["city", "x"], otherwise="no") == "no"
