"""What the schema's split_by decides: groups stay together, and cut-offs are kept."""

import dataclasses
import datetime
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs.conversion.assignment import Splitting, split_rows
from beam_jobs.conversion.plan import Plan
from beam_jobs.sources.source import RawRows
from pipeline.data.schema.feature import Clean, Feature
from pipeline.data.schema.feature_types import Datetime, Numeric
from pipeline.data.schema.schema import Schema, SplitBy

HALVES = Plan(
    input_splits=(),
    fractions={"train": Fraction(1, 2), "test": Fraction(1, 2)},
    shards={},
    buckets={},
    layout="rows",
    schema_fingerprint="",
)
DAYS = SplitBy(columns=("c",), first="train", starts={"validation": "2026-11-01", "test": "2026-12-01"})
MARKS = SplitBy(columns=("c",), first="old", starts={"new": 10.5})


def split(
    cells: pa.Array, split_by: SplitBy, *, pinned: str = "", features: tuple[Feature, ...] = ()
) -> Splitting:
    rows = RawRows(columns=pa.record_batch({"c": cells}), sources="file")
    ids = pa.array([f"row {row}" for row in range(len(cells))])
    schema = Schema(name="s", features=(Numeric(name="x"), *features), split_by=split_by)
    return split_rows(rows, ids, schema, HALVES, pinned=pinned)


def names(found: Splitting) -> list[str]:
    return [found.splits[index] for index in found.index]


def test_rows_of_one_group_share_a_split():
    users = pa.array([f"user {row % 20}".encode() for row in range(400)])
    found = split(users, SplitBy(columns=("c",)))
    of_user = [set(found.index[user::20].tolist()) for user in range(20)]
    assert all(len(splits) == 1 for splits in of_user)
    assert {split for splits in of_user for split in splits} == {0, 1}
    assert found.splits == ("train", "test")


def test_a_row_without_a_group_is_rejected():
    for cells in (pa.array([b"a", b"", None]), pa.array([1.0, float("nan"), None])):
        problems = split(cells, SplitBy(columns=("c",))).problems
        assert problems == dict.fromkeys((1, 2), ("c", "no value to split by"))


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([b"2026-10-31", b" 2026-11-01 ", b"2026-11-30T23:59:59.999999", b"2026-12-01 00:00:00"]),
        pa.array(["2026-10-31T23:30:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:30:00+01:00", "2026-12-01"]),
        pa.array([datetime.date(2026, 10, 31), *3 * [None]]).fill_null(datetime.date(2026, 11, 1)),
    ],
)
def test_a_cut_off_in_time_is_kept(cells: pa.Array):
    last = "validation" if pa.types.is_date(cells.type) else "test"
    assert names(split(cells, DAYS)) == ["train", "validation", "validation", last]


@pytest.mark.parametrize(
    ("last", "first"),
    [
        ("2026-11-01 00:59:59+01", "2026-11-01 01:00:00+01"),  # as PostgreSQL writes it
        ("2026-10-31T23:59:59.999999999z", "2026-11-01T00:00:00.000000000z"),  # as Java does
    ],
)
def test_a_time_is_read_as_databases_write_it(last: str, first: str):
    assert names(split(pa.array([last, first]), DAYS)) == ["train", "validation"]


def test_the_feature_of_the_column_says_how_it_is_read():
    cells = pa.array([b"31.10.2026", b"1.11.2026 0:59", b"1.11.2026 1:00", b"n/a"])
    day = Datetime(
        name="day", column="c", format="%d.%m.%Y", zone="Europe/Zurich", clean=Clean(null_markers=("n/a",))
    )
    found = split(cells, DAYS, features=(day,))
    assert names(found)[:3] == ["train", "train", "validation"]
    assert found.problems == {3: ("c", "missing")}
    price = Numeric(name="price", column="c", clean=Clean(remove=(",",)))
    assert names(split(pa.array([b"1,000", b"9"]), MARKS, features=(price,))) == ["new", "old"]


def test_a_cut_off_may_be_a_number():
    assert names(split(pa.array([b"-1", b"10.4", b"10.5", b"1e6"]), MARKS)) == ["old", "old", "new", "new"]
    assert names(split(pa.array([10, 11]), MARKS)) == ["old", "new"]


@pytest.mark.parametrize(("split_by", "reason"), [(DAYS, "not a date as %Y-%m-%d"), (MARKS, "not a number")])
def test_what_cannot_be_ordered_is_rejected(split_by: SplitBy, reason: str):
    found = split(pa.array([b"soon", b"", None]), split_by)
    missing = "no value to split by"
    assert found.problems == {0: ("c", reason), 1: ("c", missing), 2: ("c", missing)}


def test_an_input_that_is_pinned_stays_so():
    plan = dataclasses.replace(HALVES)
    rows = RawRows(columns=pa.record_batch({"x": pa.array([1, 2])}), sources="file")
    schema = Schema(name="s", features=(Numeric(name="x"),))
    found = split_rows(rows, pa.array(["a", "b"]), schema, plan, pinned="extra")
    assert names(found) == ["extra", "extra"]
    np.testing.assert_array_equal(found.index, [0, 0])
