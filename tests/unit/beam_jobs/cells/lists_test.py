"""Lists of names: what ugly cells become as a multilabel and as a feature, whatever format they come from."""

import pathlib

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs.cells import typed
from beam_jobs.cells.text import TRUNCATED
from beam_jobs.sources.jsonl import JsonLines
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.feature_types import Categories, Label

CLASSES = ("1", "2", "ten", "true")
# A cell, and the names in it: None where the row is rejected, whatever the format.
IN_JSON = {
    "null": ("null", None),
    "no name": ("[]", []),
    "one": ('["ten"]', ["ten"]),
    "twice": ('["ten", "2", "ten"]', ["ten", "2", "ten"]),
    "nested": ('[["ten"], ["2", ["1"]]]', ["ten", "2", "1"]),
    "numbers": ("[2, 1]", ["2", "1"]),
    "a whole fraction": ("[2.0]", ["2"]),
    "mixed types": ('["ten", 1, true]', ["ten", "1", "true"]),
    "a null in it": ('["ten", null]', None),
    "empty text in it": ('["ten", ""]', None),
    "blanks": ('[" ten ", "2\\t"]', ["ten", "2"]),
    "no list": ('"ten"', ["ten"]),
    "a bare number": ("2", ["2"]),
    "unknown": ('["ten", "eleven"]', None),
    "an object in it": ('[{"a": 1}]', None),
}
IN_TEXT = {
    "empty": ("", []),
    "blank": ("  ", []),
    "a marker": ("NA", None),
    "one": ("ten", ["ten"]),
    "at the ends": ("|ten|2|", ["ten", "2"]),
    "nothing between": ("ten||2", ["ten", "2"]),
    "only delimiters": ("|||", []),
    "twice": ("2|2", ["2", "2"]),
    "another delimiter": ("ten;2", None),
    "a marker in it": ("ten|NA", None),
    "not UTF-8": (b"ten|\xff", None),
}


def of_json(tmp_path: pathlib.Path, cells: dict) -> pa.Array:
    lines = [f'{{"tags": {cell}}}' for cell, _ in cells.values()]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    source = JsonLines()
    [split] = source.input_splits([Input(location=str(tmp_path / "a.jsonl"))])
    [raw] = [each for each in source.read(split) if each.columns.num_rows]
    return raw.column("tags")


def of_text(tmp_path: pathlib.Path, cells: dict) -> pa.Array:
    return pa.array([cell if isinstance(cell, bytes) else cell.encode() for cell, _ in cells.values()])


@pytest.mark.parametrize(
    ("read", "cells", "delimiter"), [(of_json, IN_JSON, ""), (of_text, IN_TEXT, "|")], ids=["json", "text"]
)
def test_each_row_has_its_classes_or_is_rejected(tmp_path, read, cells, delimiter):
    clean = Clean(null_markers=("", "NA"))
    label = Label(name="tags", task="multilabel", classes=CLASSES, delimiter=delimiter, clean=clean)
    column = typed.parse(label, read(tmp_path, cells))
    hot = np.array(column.values.to_pylist())
    for row, (name, (_, names)) in enumerate(cells.items()):
        assert (row in column.problems) == (names is None), name
        if names is not None:
            assert [CLASSES[at] for at in np.flatnonzero(hot[row])] == sorted({*names}, key=CLASSES.index)
            assert set(hot[row].tolist()) <= {0, 1}


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_feature_keeps_the_first_names_and_tells_of_longer_lists(tmp_path, length):
    feature = Categories(name="tags", length=length, vocabulary=CLASSES, missing="mark")
    column = typed.parse(feature, of_json(tmp_path, IN_JSON))
    assert not column.problems  # what a label cannot do without is left out, or unknown
    names = {
        name: [*filter(None, value)] if value else value
        for name, value in zip(IN_JSON, column.values.to_pylist(), strict=True)
    }
    whole = {name: found for name, (_, found) in IN_JSON.items() if found is not None}
    assert {name: names[name] for name in whole} == {name: found[:length] for name, found in whole.items()}
    assert (names["null"], names["no name"], names["a null in it"]) == (None, [], ["ten"])
    assert names["unknown"] == ["ten", "eleven"][:length]
    longer = {row for row, (name, found) in enumerate(whole.items()) if len(found) > length}
    rows = {list(whole)[row] for row in longer} | ({"unknown"} if length == 1 else set())
    assert {list(IN_JSON)[row] for row in column.notes.get(TRUNCATED, ())} == rows


def test_a_list_that_is_missing_rejects_the_row_where_the_schema_says_so(tmp_path):
    feature = Categories(name="tags", length=2, encoding="hashed", buckets=4)
    column = typed.parse(feature, of_json(tmp_path, IN_JSON))
    assert column.problems == {0: "missing"}
    with pytest.raises(InputError, match=r"field 'length'.*received 0"):
        Categories(name="tags")
    with pytest.raises(InputError, match=r"field 'missing'.*received 'default'"):
        Categories(name="tags", length=2, missing="default", default="a")
    with pytest.raises(InputError, match=r"field 'delimiter'.*a single value"):
        Label(name="y", task="multiclass", classes=("a", "b"), delimiter="|")


def test_parquet_lists_of_numbers_and_of_lists_are_read_alike():
    label = Label(name="tags", task="multilabel", classes=CLASSES)
    for cells in (
        pa.array([[1, 2], [], None, [2, 2]], pa.list_(pa.int16())),
        pa.array([[[1], [2]], [], None, [[2, 2]]], pa.large_list(pa.list_(pa.float32()))),
        pa.array([["1", "2"], [], None, ["2"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    ):
        column = typed.parse(label, cells)
        assert column.problems == {2: "missing"}
        assert [row[:2] for row in np.array(column.values.to_pylist())[[0, 1, 3]].tolist()] == [
            [1, 1],
            [0, 0],
            [0, 1],
        ]
