"""Splits, shards and buckets depend on a row and nothing else; rows arrive there whatever carries them."""

import pathlib
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs.conversion import assignment
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.shuffle import Spill
from beam_jobs.sources.source import RawRows

FRACTIONS = [Fraction("0.8"), Fraction("0.1"), Fraction("0.1")]
IDS = pa.array([f"row {number}" for number in range(1000)])
ORDER = assignment.hash_ids(IDS, purpose=assignment.ORDER)
ROWS = pa.record_batch({"": pa.array(ORDER), "id": IDS})
PLAN = Plan(
    input_splits=(),
    fractions={"train": Fraction(3, 4), "test": Fraction(1, 4)},
    shards={"train": 3, "test": 1},
    buckets={"train": 4, "test": 2},
    layout="rows",
    schema_fingerprint="",
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
