"""Typed values from raw cells, and what is said of cells that do not conform."""

import pyarrow as pa
import pytest

from beam_jobs.cells.typed import parse
from pipeline.data.schema.feature import Clean, Feature
from pipeline.data.schema.feature_types import Categorical, Label, Numeric, Tensor, Text, Tokens


def parsed(feature: Feature, *cells: str | bytes) -> tuple[list, dict[int, str]]:
    raw = pa.array([cell if isinstance(cell, bytes) else cell.encode() for cell in cells], pa.binary())
    column = parse(feature, raw)
    return column.values.to_pylist(), dict(column.problems)


def test_clean_up_strips_then_finds_markers_then_replaces_aliases():
    clean = Clean(strip=" .", null_markers=("", "?"), aliases={"USA": "United States"})
    feature = Categorical(name="c", missing="mark", clean=clean)
    assert parsed(feature, " USA. ", " ? ", "Peru", "") == (["United States", None, "Peru", None], {})


def test_numbers():
    values, problems = parsed(Numeric(name="n", missing="mark"), "1.5", " -2e3 ", "", "+4")
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
        (Numeric(name="n", number="int64"), "9223372036854775808", "not a whole number"),
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
    assert parsed(feature, good, cell, good)[1] == {1: reason}


def test_an_unknown_integer_is_kept_where_it_may_be_out_of_vocabulary():
    feature = Categorical(name="c", encoding="integer", size=3)
    assert parsed(feature, "2", "77", "-1") == ([2, 77, -1], {})


def test_classes_become_their_index():
    assert parsed(Label(name="y", classes=("no", "yes")), "yes", " no ")[0] == [1, 0]


def test_flat_lists_become_tensors():
    feature = Tensor(name="t", dimensions=(2, 2), number="int64")
    assert parsed(feature, "1 2 3 4", "5,6;7, 8")[0] == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_many_bad_cells_among_many_good_ones():
    cells = [("x" if number % 3 == 0 else str(number)) for number in range(1000)]
    values, problems = parsed(Numeric(name="n", number="int64"), *cells)
    assert sorted(problems) == list(range(0, 1000, 3))
    assert values[1:3] == [1, 2]
