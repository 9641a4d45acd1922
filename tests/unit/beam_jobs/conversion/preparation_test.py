"""Raw rows become typed or rejected rows, and arrive in the split of their group."""

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
from beam_jobs.conversion import preparation
from beam_jobs.conversion.assignment import ShardKey
from beam_jobs.conversion.preparation import Prepare
from beam_jobs.conversion.shuffle import Spill
from beam_jobs.launch.outcome import REJECTED
from beam_jobs.launch.run import Progress
from beam_jobs.sources.source import Input, InputSplit, RawRows, Source
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Categorical, Datetime, Label, Numeric, Tokens
from pipeline.data.schema.schema import Schema
from tests.shared.conversions import plan_of

OF_TYPES = Schema(
    name="s",
    features=(
        Numeric(name="x"),
        Categorical(name="c", column="raw c", vocabulary=("a", "b"), unknown="reject"),
        Label(name="y", classes=("no", "yes")),
    ),
    ignore={"note": "free text"},
)


def raw(x: list[str], c: list[str], y: list[str]) -> RawRows:
    cells = {"x": x, "raw c": c, "y": y, "note": ["\udcff"] * len(x)}
    columns = {
        k: pa.array([v.encode("utf-8", "surrogateescape") for v in vs], pa.binary())
        for k, vs in cells.items()
    }
    numbers = np.arange(len(x)) + 101
    return RawRows(columns=pa.record_batch(columns), sources="data.csv", numbers=numbers)


def typed(rows: RawRows) -> preparation.TypedRows:
    return preparation.type_rows(rows, OF_TYPES)


def test_good_rows_are_typed():
    result = typed(raw(["1", "2"], ["a", "b"], ["yes", "no"]))
    assert result.rows.select(["x", "c", "y"]).to_pydict() == {"x": [1, 2], "c": ["a", "b"], "y": [1, 0]}
    assert result.rejected == ()


def test_bad_rows_are_rejected_once_with_origin_column_and_reason():
    result = typed(raw(["1", "?", "3"], ["a", "z", "c"], ["yes", "no", "no"]))
    assert result.rows.column("x").to_pylist() == [1]
    assert result.kept.tolist() == [0]
    told = [(r.source, r.row, r.column, r.reason, r.raw) for r in result.rejected]
    assert told == [
        ("data.csv", 102, "x", "not a number", "?"),
        ("data.csv", 103, "raw c", "not in the vocabulary", "c"),
    ]


def test_a_time_beyond_python_s_is_rejected_with_its_text():
    counts = pa.array([0, 1 << 40], pa.timestamp("s"))
    rows = RawRows(columns=pa.record_batch({"t": counts}), sources="a.parquet", numbers=np.array([1, 2]))
    [rejected] = preparation.type_rows(rows, Schema(name="s", features=(Datetime(name="t"),))).rejected
    assert (rejected.row, rejected.reason) == (2, "no such date or time")
    assert "1099511627776" in rejected.raw


def test_a_row_is_typed_the_same_when_others_are_rejected():
    alone = typed(raw(["2"], ["b"], ["no"]))
    among = typed(raw(["x", "2"], ["b", "b"], ["no", "no"]))
    assert alone.rows == among.rows


def test_the_cells_of_conforming_rows():
    result = typed(raw(["1", "?", "3"], ["a", "a", "b"], ["no", "no", "no"]))
    assert result.of_kept(pa.array(["first", "second", "third"])).to_pylist() == ["first", "third"]


def test_a_column_that_the_schema_does_not_know_is_named():
    with pytest.raises(InputError, match="column 'z', which the schema does not know"):
        preparation.check_declared(["x", "raw c", "y", "z"], OF_TYPES, "data.csv")


def test_text_for_a_schema_of_tokens_needs_its_tokenizer():
    tokens = Tokens(name="tokens", length=64, vocabulary_size=259, tokenizer="bytes")
    with pytest.raises(InputError, match="--tokenizer=bytes --sequence_length=64"):
        preparation.check_declared(["text"], Schema(name="s", features=(tokens,)), "corpus.txt")


def test_names_with_bytes_that_are_no_utf_8_point_at_the_encoding():
    names = ["x", "raw c", "y", "citt\\xe0"]
    with pytest.raises(InputError, match="--encoding"):
        preparation.check_declared(names, OF_TYPES, "data.csv")
    with pytest.raises(InputError, match="--encoding"):
        preparation.check_present(["x", "y", "raw \\xe7"], OF_TYPES, "data.csv")


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(InputError, match="also 'raw c', which the schema reads"):
        preparation.check_present(["x", "y"], OF_TYPES, "data.csv")


def test_ignored_columns_may_be_there_or_not():
    for names in (["x", "raw c", "y"], ["x", "raw c", "y", "note", "note.deeper"]):
        preparation.check_declared(names, OF_TYPES, "data.csv")
        preparation.check_present(names, OF_TYPES, "data.csv")


# Raw rows arrive in the split of their group, bad ones left out.
SCHEMA = Schema(name="s", features=(Numeric(name="number", number="int64"),))
HALVES = {"train": Fraction(1, 2), "test": Fraction(1, 2)}
ONE_EACH = dict.fromkeys(HALVES, 1)
PLAN = plan_of(fractions=HALVES, shards=ONE_EACH, buckets=ONE_EACH)
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
