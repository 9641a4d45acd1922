"""Typed values from raw cells, as text or as typed formats give them; what does not conform is named."""

import datetime
import decimal
import io
import math

import numpy as np
import PIL.Image
import pyarrow as pa
import pytest

from beam_jobs.cells.text import MISPLACED, WITH_POINT
from beam_jobs.cells.typed import parse
from pipeline.data.schema.feature import Clean, Feature
from pipeline.data.schema.feature_types import Categorical, Image, Label, Numeric, Tensor, Text, Tokens


def parsed_text(feature: Feature, *cells: str | bytes) -> tuple[list, dict[int, str]]:
    raw = pa.array([cell if isinstance(cell, bytes) else cell.encode() for cell in cells], pa.binary())
    column = parse(feature, raw)
    return column.values.to_pylist(), dict(column.problems)


def test_clean_up_strips_then_finds_markers_then_replaces_aliases():
    clean = Clean(strip=" .", null_markers=("", "?"), aliases={"USA": "United States"})
    feature = Categorical(name="c", missing="mark", clean=clean)
    assert parsed_text(feature, " USA. ", " ? ", "Peru", "") == (["United States", None, "Peru", None], {})


def test_numbers():
    values, problems = parsed_text(Numeric(name="n", missing="mark"), "1.5", " -2e3 ", "", "+4")
    assert (values, problems) == ([1.5, -2000.0, None, 4.0], {})


@pytest.mark.parametrize(
    ("feature", "cell", "reason"),
    [
        (Numeric(name="n"), "ten", "not a number"),
        (Numeric(name="n"), "", "missing"),
        (Numeric(name="n"), "nan", "not a finite number"),
        (Numeric(name="n"), "1e39", "too large for float32"),
        (Numeric(name="n", number="int64"), "1.5", "not a whole number"),
        (Numeric(name="n", number="int64"), "0x1F", "not a whole number"),
        (Numeric(name="n", number="int64"), "9223372036854775808", "a whole number beyond int64"),
        (Numeric(name="n", clean=Clean(remove=(",",))), "2332,50", MISPLACED),
        (Numeric(name="n", clean=Clean(remove=(".",), decimal=",")), "2855.50", MISPLACED),
        (Numeric(name="n", minimum=0), "-1", "below the minimum of 0"),
        (Numeric(name="n", maximum=9), "10", "above the maximum of 9"),
        (Categorical(name="c", vocabulary=("a",), unknown="reject"), "b", "not in the vocabulary"),
        (Categorical(name="c", encoding="integer", size=3, unknown="reject"), "3", "not in 0 … 2"),
        (Categorical(name="c"), b"\xff\xfe", "not UTF-8"),
        (Text(name="t"), b"caf\xe9", "not UTF-8"),
        (Label(name="y", classes=("no", "yes")), "perhaps", "not one of the classes"),
        (Label(name="y", classes=("no", "yes")), "", "missing"),
        (Tokens(name="t", length=2, vocabulary_size=9), "1 9", "not in 0 … 8"),
        (Tokens(name="t", length=2, vocabulary_size=9), "1 2 3", "not 2 numbers"),
        (Tensor(name="t", dimensions=(2,)), "1;x", "not a number"),
    ],
)
def test_what_does_not_conform_is_told_by_row(feature: Feature, cell: str | bytes, reason: str):
    good = {"tokens": "1 2", "tensor": "1;2", "label": "yes", "categorical": "a"}.get(feature.kind, "7")
    good = "1" if isinstance(feature, Categorical) and feature.encoding == "integer" else good
    assert parsed_text(feature, good, cell, good)[1] == {1: reason}


def test_an_unknown_integer_is_kept_where_it_may_be_out_of_vocabulary():
    feature = Categorical(name="c", encoding="integer", size=3)
    assert parsed_text(feature, "2", "77", "-1") == ([2, 77, -1], {})


def test_classes_become_their_index():
    assert parsed_text(Label(name="y", classes=("no", "yes")), "yes", " no ")[0] == [1, 0]


def test_flat_lists_become_tensors():
    feature = Tensor(name="t", dimensions=(2, 2), number="int64")
    assert parsed_text(feature, "1 2 3 4", "5,6;7, 8")[0] == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_many_bad_cells_among_many_good_ones():
    cells = [("x" if number % 3 == 0 else str(number)) for number in range(1000)]
    values, problems = parsed_text(Numeric(name="n", number="int64"), *cells)
    assert sorted(problems) == list(range(0, 1000, 3))
    assert values[1:3] == [1, 2]


# Cells that arrive typed, as Parquet, Avro and TFRecord give them, not as text.
WHOLE = Numeric(name="n", number="int64", missing="default", default=0)
REAL = Numeric(name="n", missing="mark")


def parsed(feature: Feature, cells: pa.Array) -> tuple[list, dict[int, str]]:
    column = parse(feature, cells)
    return column.values.to_pylist(), dict(column.problems)


@pytest.mark.parametrize(
    ("feature", "cells", "values"),
    [
        (WHOLE, pa.array([7.0, None, math.nan]), [7, None, None]),
        (WHOLE, pa.array([7, -8], pa.int8()), [7, -8]),
        (WHOLE, pa.array([True, False]), [1, 0]),
        (WHOLE, pa.array([decimal.Decimal("12.00")]), [12]),
        (WHOLE, pa.array([datetime.datetime(1970, 1, 2)]), [86400]),
        (REAL, pa.array([1, (1 << 53) + 1]), [1.0, float(1 << 53)]),
        (REAL, pa.array([1.5, math.nan], pa.float16()), [1.5, None]),
        (REAL, pa.array([decimal.Decimal("1.25")]), [1.25]),
        (REAL, pa.array([datetime.date(1970, 1, 2)]), [86400.0]),
        (REAL, pa.array(["1.5", "", None]), [1.5, None, None]),
        (REAL, pa.array([[1.5], [], None], pa.list_(pa.float32())), [1.5, None, None]),
        (REAL, pa.array([2.5, 2.5]).dictionary_encode(), [2.5, 2.5]),
        (Categorical(name="c"), pa.array([7.0, 0.1]), ["7", "0.1"]),
        (Categorical(name="c"), pa.array([True]), ["true"]),
        (Categorical(name="c"), pa.array([[b"a"], [b" b "]]), ["a", "b"]),
        (Text(name="t"), pa.array([datetime.date(2020, 1, 2)]), ["2020-01-02"]),
        (Label(name="y", classes=("0", "1")), pa.array([1.0, 0.0]), [1, 0]),
        (Label(name="y", task="regression"), pa.array([3], pa.int32()), [3.0]),
        (Tokens(name="t", length=2, vocabulary_size=9), pa.array([[1, 2]], pa.list_(pa.int32())), [[1, 2]]),
        (Tensor(name="t", dimensions=(2, 2)), pa.array([[[1.0, 2.0], [3.0, 4.0]]]), [[1, 2, 3, 4]]),
        (Tensor(name="t", dimensions=(2,)), pa.array([["1", "2"]]), [[1, 2]]),
    ],
)
def test_typed_cells_become_values(feature: Feature, cells: pa.Array, values: list):
    assert parsed(feature, cells) == (values, {})


@pytest.mark.parametrize(
    ("feature", "cells", "reason"),
    [
        (WHOLE, pa.array([7.5]), "not a whole number"),
        (WHOLE, pa.array([1 << 63], pa.uint64()), "a whole number beyond int64"),
        (REAL, pa.array([math.inf]), "not a finite number"),
        (REAL, pa.array([1e39]), "too large for float32"),
        (REAL, pa.array([[1.0, 2.0]]), "several values in place of one"),
        (REAL, pa.array([{"a": 1}]), "not a number"),
        (Numeric(name="n"), pa.array([math.nan]), "missing"),
        (Numeric(name="n"), pa.nulls(1), "missing"),
        (Categorical(name="c"), pa.array([[b"\xff"]]), "not UTF-8"),
        (Tensor(name="t", dimensions=(2,)), pa.array([[1.0]]), "not 2 numbers"),
        (Tensor(name="t", dimensions=(2,)), pa.array([[1.0, None]]), "a number is missing"),
        (Tensor(name="t", dimensions=(2,)), pa.array([None], pa.list_(pa.float32())), "missing"),
        (Image(name="i"), pa.array([b"no image"]), "not an image"),
        (Image(name="i"), pa.array([7]), "neither an image nor the path of one"),
    ],
)
def test_what_does_not_conform_is_told(feature: Feature, cells: pa.Array, reason: str):
    assert parsed(feature, cells)[1] == {0: reason}


def test_a_label_that_is_a_sentinel_in_any_spelling_is_missing():
    label = Label(name="y", task="regression", clean=Clean(null_markers=("", "-200", "1e+20")))
    _, problems = parsed(label, pa.array(["-200", "-200.0", "1", "1e20", ""]))
    assert problems == {0: "missing", 1: "missing", 3: "missing", 4: "missing"}


def test_markers_and_aliases_are_for_typed_numbers_too():
    feature = Numeric(name="n", missing="mark", clean=Clean(null_markers=("-999",), aliases={"8": "9"}))
    assert parsed(feature, pa.array([-999.0, 8.0, 1.0])) == ([None, 9.0, 1.0], {})


def test_a_row_of_another_length_does_not_shift_its_neighbours():
    cells = pa.array([[[1, 2], [3]], [[1, 2], [3, 4]], None, [[], [5, 6, 7, 8]]])[1:]
    values, problems = parsed(Tensor(name="t", dimensions=(4,), number="int64"), cells)
    assert problems == {1: "missing"}
    assert (values[0], values[2]) == ([1, 2, 3, 4], [5, 6, 7, 8])


def test_nested_lists_have_the_shape_of_the_tensor():
    cells = pa.array([[[1, 2], [3, 4], [5, 6]], [[1, 2, 3], [4, 5, 6]], [[1], [2, 3, 4, 5, 6]], None])
    values, problems = parsed(Tensor(name="t", dimensions=(2, 3), number="int64"), cells)
    assert problems == {0: "not of the shape [2, 3]", 2: "not of the shape [2, 3]", 3: "missing"}
    assert values[1] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("encoding", "noted"), [({"encoding": "hashed", "buckets": 9}, {1, 4}), ({}, set())])
def test_hashed_ids_with_a_point_deserve_a_remark(encoding: dict, noted: set):
    cells = pa.array(["1042", "1042.0", "a.0", "1.50", "007.0", None, ".0"])
    column = parse(Categorical(name="customer", **encoding), cells)
    assert column.values.to_pylist() == cells.to_pylist()
    assert column.notes.get(WITH_POINT, set()) == noted


def test_an_image_is_a_path_or_its_own_bytes():
    file = io.BytesIO()
    PIL.Image.fromarray(np.zeros((2, 3, 3), np.uint8)).save(file, format="PNG")
    feature = Image(name="i", height=2, width=3)
    values, problems = parsed(feature, pa.array([file.getvalue()]))
    assert (values[0]["data"], problems) == (file.getvalue(), {})
    paths = parse(feature, pa.array([b"a.png", b"/b.png", b""]), directory="gs://x", undecoded=True)
    assert [value["path"] for value in paths.values.to_pylist()] == ["gs://x/a.png", "/b.png", None]
    outside = "outside of the table's folder: --path_root=FOLDER allows another"
    assert paths.problems == {1: outside, 2: "missing"}
    large = parse(feature, pa.array(["a.png"], pa.large_string()), directory="gs://x")
    assert [value["path"] for value in large.values.to_pylist()] == ["gs://x/a.png"]


def test_marks_that_part_thousands_are_removed_in_every_grouping():
    feature = Numeric(name="n", clean=Clean(remove=(",", "CHF", " ")))
    values, problems = parsed_text(feature, "CHF 1,234.5", "1,23,456", "12,345,678 CHF", "50 CHF")
    assert (values, problems) == ([1234.5, 123456.0, 12345678.0, 50.0], {})
