"""Rows that a runner loses or repeats are noticed before anything is published."""

import dataclasses

import pyarrow as pa
import pytest

from beam_jobs.cells.typed import arrow_schema
from beam_jobs.conversion import dataset
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.writer import WrittenShard
from beam_jobs.launch.outcome import Outcome
from beam_jobs.sources.source import Rejected
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import encoding
from tests.shared import measuring

PLAN = Plan(
    input_splits=(),
    fractions={},
    shards={"train": 2},
    buckets={"train": 1},
    layout="rows",
    schema_fingerprint="",
)

SCHEMA = Schema(name="s", features=(Numeric(name="x"),))


def described(rows: int) -> bytes:
    """What workers say that they gathered of so many rows."""
    columns = [{"": number, "x": 0.5} for number in range(rows)]
    batch = pa.RecordBatch.from_pylist(columns, schema=arrow_schema(SCHEMA))
    return encoding.dumps_accumulator(measuring.gathered(SCHEMA, batch))


def shard(number: int, *, rows: int) -> WrittenShard:
    return WrittenShard(
        split="train",
        number=number,
        path="",
        index_path="",
        origins_path="",
        file_name=f"{number}",
        rows=rows,
        records=rows,
        bytes=1,
        sha256="",
    )


WHOLE = Outcome(
    rows_read=6,
    rejected=Rejected(reasons={"negative": 1}, listed=()),
    files=(shard(0, rows=3), shard(1, rows=2)),
    statistics={"train": described(5)},
)


def test_all_rows_written_or_rejected_are_fine():
    dataset.check_reconciled(WHOLE, PLAN, SCHEMA)


@pytest.mark.parametrize(
    "changed",
    [
        {"rows_read": 7},
        {"rejected": Rejected(reasons={}, listed=())},
        {"files": (shard(0, rows=3), shard(1, rows=3))},
        {"files": (shard(0, rows=5),)},
        {"files": (shard(0, rows=3), shard(0, rows=2))},
        {"files": (*WHOLE.files, shard(0, rows=0))},
        {"statistics": {"train": described(4)}},
        {"statistics": {}},
    ],
)
def test_lost_and_repeated_rows_are_noticed(changed: dict):
    with pytest.raises(InputError, match="The runner lost or repeated rows; nothing was published"):
        dataset.check_reconciled(dataclasses.replace(WHOLE, **changed), PLAN, SCHEMA)


def test_statistics_that_no_worker_sent_are_refused():
    with pytest.raises(InputError, match="Somebody else writes there"):
        dataset.statistics_of(dataclasses.replace(WHOLE, statistics={"train": b"garbage"}), PLAN, SCHEMA)
