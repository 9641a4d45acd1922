"""Rows that training saw are counted as Python counts them; rows that are equal by nature are no leakage."""

import dataclasses
import pathlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.row_hashes import RowHasher
from pipeline.data.dataset.window import open_window
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.retraining.overlap import Overlap, RowPlace, overlap, require_disjoint
from tests.shared.tiny_dataset import Row, write_dataset

SCHEMA = Schema(
    name="trips",
    features=(
        Numeric(name="miles"),
        Categorical(name="zone", encoding="integer", size=1000),
        Label(name="tip", classes=("small", "big")),
    ),
)
LAYOUTS = pytest.mark.parametrize("layout", ["rows", "blocks"])


def rows(count: int, *, values: int, seed: int) -> list[Row]:
    """Rows of so many possible values."""
    draws = np.random.default_rng(seed).integers(0, values, count).tolist()
    return [{"miles": value / 4, "zone": value % 1000, "tip": value % 2} for value in draws]


def counted(training: Sequence[Row], holdout: Sequence[Row]) -> tuple[int, int]:
    """The oracle: rows of the holdout that training has, and rows of training that it has twice."""
    times = Counter(tuple(row.values()) for row in training)
    seen = sum(tuple(row.values()) in times for row in holdout)
    return seen, sum(number for number in times.values() if number > 1)


def written(directory: pathlib.Path, *, layout: str = "rows", **splits: Sequence[Row]) -> Dataset:
    return write_dataset(directory, SCHEMA, splits, layout=layout)


@LAYOUTS
@pytest.mark.parametrize("values", [50, 3000, 100_000])
def test_rows_are_counted_as_python_counts_them(layout, values, tmp_path):
    training, holdout = rows(3000, values=values, seed=1), rows(1100, values=values, seed=2)
    dataset = written(tmp_path / "1.0.0", layout=layout, train=training, test=holdout)
    found = overlap(dataset, "train", dataset, "test")
    assert (found.seen, found.repeated) == counted(training, holdout)
    assert (found.rows, found.training_rows) == (1100, 3000)
    require_disjoint(found)  # both were drawn alike


@LAYOUTS
def test_seen_rows_are_named_by_where_they_lie(layout, tmp_path):
    training, holdout = rows(40, values=1 << 30, seed=1), rows(3000, values=1 << 30, seed=2)
    holdout[1], holdout[2000] = training[7], training[9]
    written(tmp_path / "spans" / "monday", layout=layout, test=rows(5, values=1 << 30, seed=3))
    written(tmp_path / "spans" / "tuesday", layout=layout, test=holdout)
    together = open_window([f"{tmp_path}/spans/*"])
    found = overlap(written(tmp_path / "1.0.0", layout=layout, train=training), "train", together, "test")
    name = "trips-test.tfrecord-0000{}-of-00002"
    where = {"dataset": str(tmp_path / "spans" / "tuesday"), "split": "test"}
    assert found.examples == (
        RowPlace(**where, shard=name.format(0), row=1),
        RowPlace(**where, shard=name.format(1), row=500),
    )
    assert found.fraction == 2 / 3005
    with pytest.raises(InputError, match=r"2 of 3,005 rows .*tuesday/trips-test.*00000-of-00002 row 1, .*"):
        require_disjoint(found)
    require_disjoint(found, most=0.001)


@LAYOUTS
def test_a_row_that_differs_in_its_label_alone_is_another(layout, tmp_path):
    training = [{"miles": 1.5, "zone": 3, "tip": 0}]
    dataset = written(tmp_path / "1", layout=layout, train=training, test=[training[0] | {"tip": 1}])
    assert overlap(dataset, "train", dataset, "test").seen == 0


@LAYOUTS
def test_parts_of_a_split_are_told_apart(layout, tmp_path):
    dataset = written(tmp_path / "1.0.0", layout=layout, train=rows(2500, values=1 << 30, seed=1))
    found = overlap(dataset, "train[:1100]", dataset, "train[1000:]")
    assert (found.training_rows, found.rows, found.seen) == (1100, 1500, 100)
    assert found.examples[0].row == 1000


@LAYOUTS
def test_a_span_that_came_twice_is_no_table_whose_rows_repeat(layout, tmp_path):
    training = rows(300, values=1 << 30, seed=1)
    for day in ("monday", "tuesday"):
        written(tmp_path / "spans" / day, layout=layout, train=training)
    window = open_window([f"{tmp_path}/spans/*"])
    held_out = written(tmp_path / "holdout", layout=layout, test=training[:2])
    found = overlap(window, "train", held_out, "test")
    assert (found.repeated, found.training_rows, found.seen) == (0, 300, 2)


def test_a_leak_among_rows_that_repeat_is_found(tmp_path):
    training, holdout = rows(3000, values=30_000, seed=1), rows(1000, values=30_000, seed=2)
    holdout[:200] = training[:200]
    found = overlap(
        written(tmp_path / "1.0.0", train=training), "train", written(tmp_path / "2", test=holdout), "test"
    )
    assert 0.05 < found.natural < 0.15
    with pytest.raises(InputError, match=r"expected at most 1\d\d: 9\.\d\d% of training's own rows repeat"):
        require_disjoint(found)


def test_rows_drawn_alike_raise_no_alarm():
    """2,000 draws of a training set and a holdout, from tables of few and of many values."""
    random = np.random.default_rng(0)
    for number in range(2000):
        values = [20, 1000, 20_000, 10**6][number % 4]
        training, holdout = random.integers(0, values, 1000), random.integers(0, values, 400)
        _, codes, times = np.unique(training, return_inverse=True, return_counts=True)
        found = Overlap(
            holdout="",
            rows=400,
            seen=int(np.isin(holdout, training).sum()),
            training_rows=1000,
            repeated=int((times[codes] > 1).sum()),
            examples=(),
        )
        if found.repeated:  # where nothing repeats, nothing is allowed for
            require_disjoint(found)


def test_where_nothing_repeats_nothing_may_be_seen():
    one = Overlap(holdout="h", rows=10**6, seen=1, training_rows=10**8, repeated=0, examples=())
    assert one.allowed() == 0
    assert one.allowed(0.25) == 250_000
    assert dataclasses.replace(one, repeated=10**8).allowed() == 10**6


def test_rows_of_two_forms_are_not_compared(tmp_path):
    some = rows(3, values=10, seed=1)
    training, blocks = (
        written(tmp_path / layout, layout=layout, train=some, test=some) for layout in ("rows", "blocks")
    )
    with pytest.raises(InputError, match=r"layout 'blocks'.*expected layout 'rows'"):
        overlap(training, "train", blocks, "test")
    shifted = dataclasses.replace(SCHEMA, features=(Numeric(name="miles", offset=1.0), *SCHEMA.features[1:]))
    other = write_dataset(tmp_path / "shifted", shifted, {"test": some})
    with pytest.raises(InputError, match="so that equal rows have equal bytes"):
        overlap(training, "train", other, "test")
    described = dataclasses.replace(SCHEMA, name="trips_2026")  # changes no byte of a record
    renamed = write_dataset(tmp_path / "renamed", described, {"test": some})
    assert overlap(training, "train", renamed, "test").seen == 3


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 5), min_size=2, max_size=40))
def test_hashes_are_equal_where_rows_are(drawn):
    table = np.array(drawn, np.uint16)
    table[:, 1] <<= 14  # the sign and exponent of a half
    hashes = RowHasher(5)(table)
    equal = (table[:, None] == table[None]).all(axis=2)
    assert np.array_equal(hashes[:, None] == hashes[None], equal)


def test_all_of_many_rows_that_are_alike_have_hashes_of_their_own():
    """Every pattern of 18 sign bits and low bits."""
    bits = np.arange(1 << 18)[:, None] >> np.arange(18) & 1
    table = (bits[:, ::2] << 15 | bits[:, 1::2]).astype(np.uint16)
    hashes = RowHasher(9)(table)
    assert len(np.unique(hashes)) == 1 << 18
    assert abs(float(np.mean(hashes >> np.uint64(63))) - 0.5) < 0.01
