"""Raw rows become typed rows or rejected rows, never both and never neither."""

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs import assign, prepare
from beam_jobs.sources.source import RawRows
from pipeline.data.errors import InputError
from pipeline.data.features import Categorical, Label, Numeric
from pipeline.data.schema import Schema

SCHEMA = Schema(
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


def prepared(rows: RawRows) -> prepare.Prepared:
    return prepare.prepare(rows, SCHEMA, assign.row_ids(rows.columns, ()))


def test_good_rows_are_typed():
    result = prepared(raw(["1", "2"], ["a", "b"], ["yes", "no"]))
    assert result.rows.select(["x", "c", "y"]).to_pydict() == {"x": [1, 2], "c": ["a", "b"], "y": [1, 0]}
    assert result.rejected == ()


def test_bad_rows_are_rejected_once_with_place_column_and_reason():
    result = prepared(raw(["1", "?", "3"], ["a", "z", "c"], ["yes", "no", "no"]))
    assert result.rows.column("x").to_pylist() == [1]
    assert result.kept.tolist() == [0]
    told = [(r.source, r.row, r.column, r.reason, r.raw) for r in result.rejected]
    assert told == [
        ("data.csv", 102, "x", "not a number", "?"),
        ("data.csv", 103, "raw c", "not in the vocabulary", "c"),
    ]


def test_a_row_keeps_its_place_when_others_are_rejected():
    alone = prepared(raw(["2"], ["b"], ["no"]))
    among = prepared(raw(["x", "2"], ["b", "b"], ["no", "no"]))
    assert alone.rows == among.rows


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["x", "raw c", "y", "z"], "column 'z', which the schema does not know"),
        (["x", "y"], "also 'raw c', which the schema reads"),
    ],
)
def test_columns_must_be_those_of_the_schema(names: list[str], message: str):
    with pytest.raises(InputError, match=message):
        prepare.check_columns(names, SCHEMA, "data.csv")


def test_ignored_columns_may_be_absent():
    prepare.check_columns(["x", "raw c", "y"], SCHEMA, "data.csv")
