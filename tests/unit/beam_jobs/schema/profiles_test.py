"""Counts of values in bounded memory, and what is seen in them: spellings of one word, and sentinels."""

import dataclasses
import json
import unicodedata

import pyarrow as pa
import pytest

from beam_jobs.cells.typed import parse
from beam_jobs.schema.features import propose_feature
from beam_jobs.schema.labels import propose_label
from beam_jobs.schema.profiles import ColumnProfile, ValueCounts, sentinels, spelling_aliases
from beam_jobs.schema.remarks import feature_remarks, missing_remarks, typo_remarks


def counted(*batches: list, limit: int = 100, most_bytes: int = 1 << 20) -> ValueCounts:
    counts = ValueCounts()
    for batch in batches:
        counts.add(
            pa.array([None if value is None else str(value) for value in batch], pa.string()),
            limit=limit,
            most_bytes=most_bytes,
        )
    return counts


def profile_of(counts: ValueCounts) -> ColumnProfile:
    return ColumnProfile(name="c", counts=counts.counts, others=counts.others)


def test_few_values_are_all_counted():
    counts = counted([" a", "b", None], ["a "])
    assert (counts.counts, counts.others) == ({"a": 2, "b": 1}, 0)


def test_only_what_convert_strips_is_stripped():
    assert dict(counted([" a\t", "b\N{NO-BREAK SPACE}"]).counts) == {"a": 1, "b\N{NO-BREAK SPACE}": 1}


def test_beyond_the_limit_new_values_are_counted_together():
    counts = counted([f"v{i}" for i in range(100)], ["v7", "new", "newer"])
    assert (len(counts.counts), counts.counts["v7"], counts.others, counts.total) == (100, 2, 2, 103)
    assert profile_of(counts).rows == 103
    assert profile_of(counts).distinct == 102


def test_beyond_so_many_bytes_new_values_are_counted_together():
    counts = counted(*(["a" * 50, f"{number:050}"] for number in range(100)), most_bytes=1000)
    assert counts.counts["a" * 50] == 100
    assert len(counts.counts) < 30
    assert counts.total == 200


def test_a_late_fraction_marker_and_extreme_are_seen():
    later = [*range(1000, 3000), 2.5, 3.5, "?", "-7", "007"]
    seen = profile_of(counted(list(range(100)), later))
    assert {"2999", "2.5", "?", "-7", "007"} <= seen.counts.keys()
    assert len(seen.counts) < 110
    without_code = profile_of(counted(list(range(100)), later[:-1]))
    assert (without_code.markers, without_code.are_whole_numbers) == (("?",), False)
    assert (without_code.numbers[0], without_code.numbers[-1]) == (-7, 2999)


def test_missing_values_are_exact_in_a_column_of_many_values():
    rows = [[i if i % 4 else "NA" for i in range(start, start + 400)] for start in range(0, 4000, 400)]
    assert profile_of(counted(*rows)).missing_fraction == 0.25


def test_memory_is_bounded():
    counts = counted(*(range(start, start + 1000) for start in range(0, 100_000, 1000)))
    assert len(counts.counts) < 1300
    assert counts.total == 100_000


def test_spellings_that_differ_in_case_are_the_most_frequent_one():
    column = ColumnProfile(name="city", counts={"bern": 2, "Bern": 9, "BERN": 1, "Genf": 3})
    feature = propose_feature(column)
    assert (feature.vocabulary, feature.clean.aliases) == (("Bern", "Genf"), {"bern": "Bern", "BERN": "Bern"})
    assert list(feature_remarks(column, feature)) == [
        "'city': spellings that differ in case or blanks are one: 'bern' (2) as 'Bern' (9), 'BERN' (1) as "
        "'Bern' (9). If not, remove 'aliases'."
    ]


def test_classes_that_differ_in_case_are_one():
    label = propose_label(ColumnProfile(name="y", counts={"yes": 5, "Yes": 1, "no": 5}))
    assert (label.task, label.classes, label.clean.aliases) == ("binary", ("no", "yes"), {"Yes": "yes"})


TOWNS = {"Basel": 300, "Bern": 250, "Port Louis": 100, "Lausanne": 120}


@pytest.mark.parametrize(
    ("rare", "usual"),
    [
        ("Bazel", "Basel"),
        ("Baselt", "Basel"),
        ("Lausane", "Lausanne"),
        ("Lasuanne", "Lausanne"),
        ("Port Louiss", "Port Louis"),
        ("Bert", None),
        ("Basle", "Basel"),
        ("Bazzl", None),
        ("Pork Louis", None),
        ("Base1", None),
    ],
)
def test_a_rare_value_one_letter_apart_from_a_frequent_one_is_told(rare: str, usual: str | None):
    column = ColumnProfile(name="town", counts={**TOWNS, rare: 2})
    for feature, field in ((propose_feature(column), "vocabulary"), (propose_label(column), "classes")):
        remarks = "".join(typo_remarks(column, feature))
        assert (f"{rare!r} (2) of {usual!r}" in remarks) == bool(usual)
        if not usual:
            continue
        aliases = json.loads(remarks[remarks.index("{") :].rstrip("."))
        followed = dataclasses.replace(
            feature,
            **{field: tuple(value for value in getattr(feature, field) if value not in aliases)},
            clean=dataclasses.replace(feature.clean, aliases=aliases),
        )
        both = parse(followed, pa.array([rare, usual])).values.to_pylist()
        assert both[0] == both[1] is not None


def test_names_that_are_many_or_as_frequent_are_no_misspellings():
    names = ColumnProfile(name="n", counts={"Maria": 60, "Marie": 2} | {f"x{at}y": 3 for at in range(300)})
    assert not list(typo_remarks(names, propose_feature(names)))
    frequent = ColumnProfile(name="n", counts={"Maria": 60, "Marie": 20})
    assert not list(typo_remarks(frequent, propose_feature(frequent)))


def test_letters_that_differ_in_case_are_codes():
    assert spelling_aliases({"a": 1, "A": 2}) == {}


@pytest.mark.parametrize("other", ["Bern\u00a0West", "Bern  West", "Bern West\u200b", "\ufeffBern West"])
def test_blanks_that_nobody_sees_make_no_category(other: str):
    assert spelling_aliases({"Bern West": 9, other: 1, "Genf": 3}) == {other: "Bern West"}


def test_an_accent_of_its_own_makes_no_category():
    spelled = [unicodedata.normalize(form, "Zürich") for form in ("NFC", "NFD")]
    column = ColumnProfile(name="city", counts={spelled[0]: 5, spelled[1]: 2, "Genf": 3})
    feature = propose_feature(column)
    assert feature.vocabulary == ("Genf", "Zürich")
    told = r"'city': spellings that differ in case or blanks are one: 'Zu\u0308rich' (2) as 'Zürich' (5)."
    assert next(feature_remarks(column, feature)).startswith(told)


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
    assert list(missing_remarks(column, feature)) == [
        "'t': -999 (5 rows) is far from all other numbers (1.5 … 35) and taken as missing. If it is one of "
        "them: --not_missing=t=-999."
    ]


@pytest.mark.parametrize(("odd", "is_missing"), [("01067", False), ("none given", True), ("-", True)])
def test_a_code_with_a_leading_zero_is_no_word_for_missing(odd: str, is_missing: bool):
    column = ColumnProfile(name="postcode", counts={"80331": 300, "10115": 300, odd: 300, "": 30})
    feature = propose_feature(column)
    assert (odd in column.markers) == is_missing
    assert (feature.kind == "numeric") == is_missing
    assert is_missing or set(feature.vocabulary) == {"01067", "10115", "80331"}
