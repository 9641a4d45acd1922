"""Rows in hash order, whatever order they arrived in."""

import numpy as np
import pyarrow as pa

from beam_jobs.cells.rows import arrow_schema
from beam_jobs.conversion.shard_writer import in_hash_order, ties_ranked
from beam_jobs.records.examples import encode
from pipeline.data.schema.kinds import Numeric
from pipeline.data.schema.schema import Schema

SCHEMA = Schema(name="s", features=(Numeric(name="x", number="int64"),))


def batch(rows: list[tuple[int, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"": order, "x": x} for order, x in rows], schema=arrow_schema(SCHEMA))


def test_rows_are_sorted_by_their_hash():
    ordered = in_hash_order(batch([(1 << 63, 0), (5, 1), ((1 << 64) - 1, 2), (7, 3)]))
    assert ordered.column("x").to_pylist() == [1, 3, 0, 2]


def test_rows_of_one_hash_are_sorted_by_their_records():
    rows = [(5, 300), (9, 1), (5, 2), (5, 70), (9, 0), (7, 4)]
    records = set()
    for seed in range(20):
        shuffled = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
        ordered = ties_ranked(in_hash_order(batch(shuffled)), SCHEMA)
        records.add(tuple(encode(ordered, SCHEMA).to_pylist()))
    assert len(records) == 1


def test_no_rows_are_in_order():
    assert ties_ranked(in_hash_order(batch([])), SCHEMA).num_rows == 0
