"""Raw rows become typed rows or rejected rows, never both and never neither."""

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs.conversion import preparation
from beam_jobs.sources.source import RawRows
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema

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


def typed(rows: RawRows) -> preparation.TypedRows:
    return preparation.type_rows(rows, SCHEMA)


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


def test_a_row_is_typed_the_same_when_others_are_rejected():
    alone = typed(raw(["2"], ["b"], ["no"]))
    among = typed(raw(["x", "2"], ["b", "b"], ["no", "no"]))
    assert alone.rows == among.rows


def test_the_cells_of_conforming_rows():
    result = typed(raw(["1", "?", "3"], ["a", "a", "b"], ["no", "no", "no"]))
    assert result.of_kept(pa.array(["first", "second", "third"])).to_pylist() == ["first", "third"]


def test_a_column_that_the_schema_does_not_know_is_named():
    with pytest.raises(InputError, match="column 'z', which the schema does not know"):
        preparation.check_declared(["x", "raw c", "y", "z"], SCHEMA, "data.csv")


def test_names_with_bytes_that_are_no_utf_8_point_at_the_encoding():
    names = ["x", "raw c", "y", "citt\\xe0"]
    with pytest.raises(InputError, match="--encoding"):
        preparation.check_declared(names, SCHEMA, "data.csv")
    with pytest.raises(InputError, match="--encoding"):
        preparation.check_present(["x", "y", "raw \\xe7"], SCHEMA, "data.csv")


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(InputError, match="also 'raw c', which the schema reads"):
        preparation.check_present(["x", "y"], SCHEMA, "data.csv")


def test_ignored_columns_may_be_there_or_not():
    for names in (["x", "raw c", "y"], ["x", "raw c", "y", "note", "note.deeper"]):
        preparation.check_declared(names, SCHEMA, "data.csv")
        preparation.check_present(names, SCHEMA, "data.csv")
