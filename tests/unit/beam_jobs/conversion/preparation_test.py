"""Raw rows arrive in the split of their group, bad ones left out."""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.pvalue import TaggedOutput

from beam_jobs.cells.typed import arrow_schema
from beam_jobs.conversion.assignment import ShardKey
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.preparation import Prepare
from beam_jobs.conversion.shuffle import Spill
from beam_jobs.launch.outcome import REJECTED
from beam_jobs.launch.run import Progress
from beam_jobs.sources.source import Input, InputSplit, RawRows, Source
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema

SCHEMA = Schema(name="s", features=(Numeric(name="number", number="int64"),))
HALVES = {"train": Fraction(1, 2), "test": Fraction(1, 2)}
ONE_EACH = dict.fromkeys(HALVES, 1)
PLAN = Plan(
    input_splits=(), fractions=HALVES, shards=ONE_EACH, buckets=ONE_EACH, layout="rows", schema_fingerprint=""
)
ROWS, IN_GROUP = 200, 10


@dataclasses.dataclass(frozen=True)
class Grouped:
    """Numbers in groups of ten. The first of each group is no number."""

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        return [InputSplit(paths=("numbers",), root="", bytes=1) for _ in inputs]

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        cells = [b"bad" if row % IN_GROUP == 0 else str(row).encode() for row in range(ROWS)]
        yield RawRows(
            columns=pa.record_batch({"number": pa.array(cells)}),
            sources=input_split.name,
            numbers=np.arange(1, ROWS + 1),
            groups=pa.array([f"group {row // IN_GROUP}" for row in range(ROWS)]),
            undecoded=True,
        )


def prepared(
    source: Source, schema: Schema, tmp_path: pathlib.Path
) -> Iterator[tuple[ShardKey, pa.RecordBatch]]:
    """What arrives at each shard."""
    progress = Progress(path=str(tmp_path / "none"))
    prepare = Prepare(source, schema, PLAN, spill=Spill(directory=""), progress=progress)
    [input_split] = source.input_splits([Input(location="numbers")])
    for output in prepare.process(input_split):
        if not isinstance(output, TaggedOutput):
            key, (_, sent) = output
            yield key, pa.ipc.read_record_batch(pa.py_buffer(sent), arrow_schema(schema))


def test_a_group_goes_to_one_split(tmp_path: pathlib.Path):
    groups, received = collections.defaultdict(set), []
    for (split, _), rows in prepared(Grouped(), SCHEMA, tmp_path):
        numbers = rows.column("number").to_pylist()
        groups[split] |= {number // IN_GROUP for number in numbers}
        received += numbers
    assert sorted(received) == [row for row in range(ROWS) if row % IN_GROUP]
    assert len(groups["train"]) + len(groups["test"]) == ROWS // IN_GROUP
    assert groups["train"] and groups["test"]


def places(loaded_at: Iterable[int], tmp_path: pathlib.Path) -> list[tuple]:
    """Split, shard and order hash of each number, in a table with a column that the schema ignores."""

    class Table(Grouped):
        def read(self, input_split: InputSplit) -> Iterator[RawRows]:
            columns = {"number": pa.array(range(ROWS)), "loaded_at": pa.array(loaded_at)}
            yield RawRows(columns=pa.record_batch(columns), sources=input_split.name)

    schema = dataclasses.replace(SCHEMA, ignore={"loaded_at": "says nothing"})
    return sorted(
        (number, *key, order)
        for key, rows in prepared(Table(), schema, tmp_path)
        for order, number in zip(*rows.to_pydict().values(), strict=True)
    )


@pytest.mark.parametrize(("keeps", "raw"), [(True, {"bad"}), (False, {""})])
def test_the_raw_value_of_a_rejected_row_need_not_be_kept(tmp_path: pathlib.Path, keeps: bool, raw: set):
    progress = Progress(path=str(tmp_path / "none"))
    prepare = Prepare(
        Grouped(), SCHEMA, PLAN, spill=Spill(directory=""), progress=progress, keeps_rejected_raw=keeps
    )
    [input_split] = Grouped().input_splits([Input(location="numbers")])
    tagged = (output for output in prepare.process(input_split) if isinstance(output, TaggedOutput))
    rejected = [output.value for output in tagged if output.tag == REJECTED]
    assert {(row.reason, row.row % IN_GROUP) for row in rejected} == {("not a whole number", 1)}
    assert {row.raw for row in rejected} == raw


def test_an_ignored_column_moves_no_row(tmp_path: pathlib.Path):
    assert places(range(ROWS), tmp_path) == places([7] * ROWS, tmp_path)
