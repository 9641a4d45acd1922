"""Splits, shards and buckets depend on a row and nothing else, or on what split_by says."""

import datetime
import pathlib
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs.conversion import assignment
from beam_jobs.conversion.assignment import Splitting, split_rows
from beam_jobs.conversion.shuffle import Spill
from beam_jobs.sources.source import RawRows
from pipeline.data.schema.feature import Clean, Feature
from pipeline.data.schema.feature_types import Datetime, Numeric
from pipeline.data.schema.schema import Schema, SplitBy
from tests.shared.conversions import plan_of

FRACTIONS = [Fraction("0.8"), Fraction("0.1"), Fraction("0.1")]
IDS = pa.array([f"row {number}" for number in range(1000)])
ORDER = assignment.hash_ids(IDS, purpose=assignment.ORDER)
ROWS = pa.record_batch({"": pa.array(ORDER), "id": IDS})
PLAN = plan_of(
    fractions={"train": Fraction(3, 4), "test": Fraction(1, 4)},
    shards={"train": 3, "test": 1},
    buckets={"train": 4, "test": 2},
)
SPLITS = assignment.split_of(
    assignment.hash_ids(IDS, purpose=assignment.SPLIT), list(PLAN.fractions.values())
)


def ids(numbers: range) -> pa.Array:
    return pa.array([f"row {number}".encode() for number in numbers], pa.binary())


def test_splits_have_their_fractions():
    hashes = assignment.hash_ids(ids(range(20_000)), purpose=assignment.SPLIT)
    counts = np.bincount(assignment.split_of(hashes, FRACTIONS))
    np.testing.assert_allclose(counts / 20_000, [0.8, 0.1, 0.1], atol=0.01)


def test_a_row_keeps_its_split_when_others_are_added():
    few = assignment.split_of(assignment.hash_ids(ids(range(100)), purpose=assignment.SPLIT), FRACTIONS)
    more = assignment.split_of(assignment.hash_ids(ids(range(5000)), purpose=assignment.SPLIT), FRACTIONS)
    np.testing.assert_array_equal(few, more[:100])


def test_the_hash_never_changes():
    # Published datasets depend on it: another value here moves every row of every dataset.
    [hashed] = assignment.hash_ids(pa.array([b"row 0"]), purpose=assignment.SPLIT)
    assert hashed == 6771443199646559948


def test_one_split_takes_all():
    hashes = np.array([0, 1 << 63, (1 << 64) - 1], np.uint64)
    assert assignment.split_of(hashes, [Fraction(1)]).tolist() == [0, 0, 0]


def test_order_and_split_do_not_correlate():
    order = assignment.hash_ids(ids(range(20_000)), purpose=assignment.ORDER)
    split = assignment.split_of(assignment.hash_ids(ids(range(20_000)), purpose=assignment.SPLIT), FRACTIONS)
    mean_position = [order[split == index].mean() / 2**64 for index in range(3)]
    np.testing.assert_allclose(mean_position, 0.5, atol=0.03)


def test_shards_are_contiguous_ranges_of_the_order():
    order = np.sort(assignment.hash_ids(ids(range(1000)), purpose=assignment.ORDER))
    shards = assignment.shard_of(order, 7)
    assert np.all(np.diff(shards) >= 0)
    assert set(shards.tolist()) == set(range(7))


def test_ids_do_not_depend_on_the_order_of_features():
    raw = RawRows(columns=pa.record_batch({"a": [b"1", b"2"], "b": [b"x", b"y"]}), sources="file")
    assert assignment.row_ids(raw, ("a", "b")) == assignment.row_ids(raw, ("b", "a", "b"))
    assert assignment.row_ids(raw, ("b",)).to_pylist() == [b"x", b"y"]


def scattered(spill: Spill, *, pinned: str = "") -> dict[tuple, pa.RecordBatch]:
    splits = (pinned,) if pinned else PLAN.unpinned
    split = np.zeros(1000, np.int64) if pinned else SPLITS
    sent = assignment.scatter(ROWS, split, PLAN, splits=splits, spill=spill)
    return {
        (*key, bucket): pa.ipc.read_record_batch(pa.py_buffer(spill.get(value)), ROWS.schema)
        for key, (bucket, value) in sent
    }


@pytest.fixture(params=["in memory", "by files"])
def spill(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Spill:
    return Spill(directory=str(tmp_path) if request.param == "by files" else "")


def test_every_row_arrives_once(spill: Spill):
    arrived = [row for part in scattered(spill).values() for row in part.column("id").to_pylist()]
    assert sorted(arrived) == sorted(IDS.to_pylist())


def test_rows_arrive_in_their_split(spill: Spill):
    parts = scattered(spill)
    train = [row for key, part in parts.items() if key[0] == "train" for row in part.column("id").to_pylist()]
    assert sorted(train) == sorted(np.array(IDS.to_pylist())[SPLITS == 0].tolist())


def test_buckets_are_contiguous_ranges_of_the_order_within_shards(spill: Spill):
    parts = scattered(spill, pinned="train")
    assert sorted(parts) == [("train", shard, bucket) for shard in range(3) for bucket in range(4)]
    highest = -1
    for key in sorted(parts):
        order = parts[key].column("").to_numpy()
        assert set(assignment.shard_of(order, 3).tolist()) == {key[1]}
        assert highest < int(order.min())
        highest = int(order.max())


def test_what_travels_by_files_is_small(tmp_path: pathlib.Path):
    [sent] = Spill(directory=str(tmp_path)).put([b"x" * 100_000])
    assert len(sent) < 100


# What the schema's split_by decides: groups stay together, and cut-offs are kept.
HALVES = plan_of(fractions={"train": Fraction(1, 2), "test": Fraction(1, 2)})
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
    rows = RawRows(columns=pa.record_batch({"x": pa.array([1, 2])}), sources="file")
    schema = Schema(name="s", features=(Numeric(name="x"),))
    found = split_rows(rows, pa.array(["a", "b"]), schema, HALVES, pinned="extra")
    assert names(found) == ["extra", "extra"]
    np.testing.assert_array_equal(found.index, [0, 0])
