"""Rows go to the shard and bucket that their hash says, in memory or by way of files."""

import pathlib
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs import assign
from beam_jobs.plan import Plan
from beam_jobs.scatter import Scatter
from beam_jobs.spill import Spill

IDS = pa.array([f"row {number}" for number in range(1000)])
ORDER = assign.hash_ids(IDS, purpose=assign.ORDER)
ROWS = pa.record_batch({"": pa.array(ORDER), "id": IDS})
PLAN = Plan(
    pieces=(),
    fractions={"train": Fraction(3, 4), "test": Fraction(1, 4)},
    shards={"train": 3, "test": 1},
    buckets={"train": 4, "test": 2},
    layout="rows",
    schema_fingerprint="",
)


def scattered(spill: Spill, *, pinned: str = "") -> dict[tuple, pa.RecordBatch]:
    sent = Scatter(PLAN, spill)(ROWS, IDS, pinned=pinned)
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


def test_the_hash_of_the_group_decides_the_split(spill: Spill):
    parts = scattered(spill)
    train = [row for key, part in parts.items() if key[0] == "train" for row in part.column("id").to_pylist()]
    split = assign.split_of(assign.hash_ids(IDS, purpose=assign.SPLIT), list(PLAN.fractions.values()))
    assert sorted(train) == sorted(np.array(IDS.to_pylist())[split == 0].tolist())


def test_buckets_are_contiguous_ranges_of_the_order_within_shards(spill: Spill):
    parts = scattered(spill, pinned="train")
    assert sorted(parts) == [("train", shard, bucket) for shard in range(3) for bucket in range(4)]
    highest = -1
    for key in sorted(parts):
        order = parts[key].column("").to_numpy()
        assert set(assign.shard_of(order, 3).tolist()) == {key[1]}
        assert highest < int(order.min())
        highest = int(order.max())


def test_what_travels_by_files_is_small(tmp_path: pathlib.Path):
    [sent] = Spill(directory=str(tmp_path)).put([b"x" * 100_000])
    assert len(sent) < 100
