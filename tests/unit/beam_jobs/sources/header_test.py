"""Headers that do not tell all columns apart."""

import pytest

from beam_jobs.sources.columns import column_names, header_remarks
from pipeline.base.errors import InputError


def test_columns_without_a_name_of_their_own_are_told_by_position():
    names = column_names(["id", "price", "", "price"], "a.csv")
    assert names == ("id", "price#2", "#3", "price#4")
    assert list(header_remarks(names)) == [
        "Several columns are called 'price': they are read by position, as 'price#2', 'price#4'.",
        "Columns have no name: they are read by position, as '#3'.",
    ]


def test_other_names_are_kept():
    assert column_names(["a", "b#7"], "a.csv") == ("a", "b#7")
    assert list(header_remarks(("a", "b#7"))) == []


def test_a_name_that_looks_like_a_position_is_not_mixed_up_with_one():
    with pytest.raises(InputError, match=r"a.csv, header: received several columns 'a#2'"):
        column_names(["a#2", "a", "a"], "a.csv")
