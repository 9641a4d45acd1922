"""Words that differ in case are one category; numbers far from all others mean "no value"."""

import pytest

from beam_jobs.schema.features import feature_remarks, propose_feature
from beam_jobs.schema.labels import propose_label
from beam_jobs.schema.profiles import ColumnProfile, case_aliases, sentinels


def test_spellings_that_differ_in_case_are_the_most_frequent_one():
    column = ColumnProfile(name="city", counts={"bern": 2, "Bern": 9, "BERN": 1, "Genf": 3})
    feature = propose_feature(column)
    assert (feature.vocabulary, feature.clean.aliases) == (("Bern", "Genf"), {"bern": "Bern", "BERN": "Bern"})
    assert list(feature_remarks(column, feature)) == [
        "'city': spellings that differ in case are one: 'bern' (2) as 'Bern' (9), 'BERN' (1) as 'Bern' (9). "
        "If not, remove 'aliases'."
    ]


def test_classes_that_differ_in_case_are_one():
    label = propose_label(ColumnProfile(name="y", counts={"yes": 5, "Yes": 1, "no": 5}))
    assert (label.task, label.classes, label.clean.aliases) == ("binary", ("no", "yes"), {"Yes": "yes"})


def test_letters_that_differ_in_case_are_codes():
    assert case_aliases({"a": 1, "A": 2}) == {}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"-999": 5, "1": 1, "2": 1, "35": 1}, ("-999",)),
        ({"9999": 2, "0.5": 1, "0.7": 1, "1.5": 1}, ("9999",)),
        ({"-999.0": 5, "9999": 2, "1": 1, "2": 1, "35": 1}, ("-999.0", "9999")),
        ({"-999": 1, "1": 1, "2": 1, "35": 1}, ()),
        ({"999": 5, "1": 1, "500": 1, "998": 1}, ()),
        ({"-999": 5, "1": 9, "2": 9}, ()),
        ({"-77": 5, "1": 1, "2": 1, "35": 1}, ()),
    ],
)
def test_a_sentinel_repeats_and_lies_far_from_the_others(values: dict[str, int], found: tuple[str, ...]):
    assert sentinels(values) == found


def test_a_sentinel_is_missing_and_said_with_its_count():
    column = ColumnProfile(name="t", counts={"-999": 5, "1.5": 1, "2": 1, "35": 1})
    feature = propose_feature(column)
    assert (feature.number, feature.missing, feature.clean.null_markers) == ("float32", "mark", ("", "-999"))
    assert list(feature_remarks(column, feature)) == [
        "'t': -999 (5 rows) is far from all other numbers (1.5 … 35) and taken as missing. If it is one of "
        "them, remove it from 'null_markers'."
    ]


@pytest.mark.parametrize(("odd", "is_missing"), [("01067", False), ("none given", True), ("-", True)])
def test_a_code_with_a_leading_zero_is_no_word_for_missing(odd: str, is_missing: bool):
    column = ColumnProfile(name="postcode", counts={"80331": 300, "10115": 300, odd: 300, "": 30})
    feature = propose_feature(column)
    assert (odd in column.markers) == is_missing
    assert (feature.kind == "numeric") == is_missing
    assert is_missing or set(feature.vocabulary) == {"01067", "10115", "80331"}
