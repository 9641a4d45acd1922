"""Statistics, and that the order of merging leaves no trace."""

import dataclasses
import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.cells.typed import arrow_schema
from pipeline.data.dataset.statistics import FeatureStatistics, SplitStatistics, ValueCounts
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Categorical, Label, Numeric, Tensor, Text
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import accumulators, encoding
from tests.shared import measuring

SCHEMA = Schema(
    name="s",
    features=(
        Numeric(name="x", missing="mark"),
        Categorical(name="c", missing="mark"),
        Categorical(name="i", encoding="integer", size=3),
        Text(name="t"),
        Tensor(name="v", dimensions=(2,)),
        Label(name="y", classes=("no", "yes")),
    ),
)


def a_row(number: int, x: float | None = 1.0, c: str | None = "a", y: int = 0) -> dict:
    return {"": number * 7919 % 1009, "x": x, "c": c, "i": number % 3, "t": "été", "v": [number, 0.5], "y": y}


def batch(rows: list[dict]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(SCHEMA))


def measured(*batches: list[dict]) -> SplitStatistics:
    """Statistics of batches that different workers saw."""
    return measuring.measured(SCHEMA, *map(batch, batches))


def test_numbers():
    x = measured([a_row(0, x=1.0), a_row(1, x=None)], [a_row(2, x=4.0), a_row(3, x=0.0)]).features["x"]
    assert (x.present, x.missing, x.missing_fraction) == (3, 1, 0.25)
    assert (x.numeric.minimum, x.numeric.maximum, x.numeric.zeros) == (0.0, 4.0, 1)
    assert x.numeric.mean == 5 / 3
    assert x.numeric.std == pytest.approx(np.std([1.0, 4.0, 0.0]), rel=1e-15)


def test_categories_are_ranked_by_count_then_value():
    split = measured([a_row(0, c="b"), a_row(1, c="a")], [a_row(2, c="c"), a_row(3, c="c"), a_row(4, c=None)])
    assert split.features["c"].values == ValueCounts(distinct=3, values=(("c", 2), ("a", 1), ("b", 1)))
    assert split.features["i"].values.values == (("0", 2), ("1", 2), ("2", 1))


def test_classes_are_counted_by_name():
    split = measured([a_row(0, y=1), a_row(1, y=0), a_row(2, y=1)])
    assert split.features["y"].values.values == (("yes", 2), ("no", 1))


def test_lengths_are_in_bytes_and_tensors_count_every_element():
    split = measured([a_row(1), a_row(3)])
    assert split.features["t"].mean_length == len("été".encode())
    assert split.features["v"].numeric.mean == (1 + 0.5 + 3 + 0.5) / 4
    assert split.features["v"].present == 2


def test_few_rows_give_exact_quantiles():
    values = [float(value) for value in range(1001)]
    x = measured([a_row(number, x=value) for number, value in enumerate(values)]).features["x"]
    assert x.numeric.quantiles == tuple(np.quantile(values, np.arange(33) / 32))


@pytest.mark.slow
def test_many_rows_give_quantiles_within_a_percentile(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(accumulators, "SAMPLE_ROWS", 2000)
    rng = np.random.default_rng(0)
    order = rng.integers(0, 1 << 63, 20_000).tolist()
    x = measured([{**a_row(0, x=i / 20_000), "": order[i]} for i in range(20_000)]).features["x"]
    assert np.max(np.abs(np.array(x.numeric.quantiles) - np.arange(33) / 32)) < 0.03
    assert (x.numeric.quantiles[0], x.numeric.quantiles[-1]) == (0.0, 19_999 / 20_000)


def test_a_number_that_comes_ten_times_is_repeated():
    values = (
        [0.0] * 12 + [7.5] * 10 + [99.0] * 9 + [-3.0] * 11 + [float(number) for number in range(100, 300)]
    )
    x = measured([a_row(number, x=value) for number, value in enumerate(values)]).features["x"]
    assert x.numeric.repeated == (-3.0, 0.0, 7.5)


def test_the_64_most_frequent_numbers_are_repeated():
    values = [float(number % 80) for number in range(1000)]  # 0 … 39 come 13 times, the others 12 times
    x = measured([a_row(number, x=value) for number, value in enumerate(values)]).features["x"]
    assert x.numeric.repeated == tuple(map(float, range(64)))


def test_too_many_values_are_only_flagged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(accumulators, "MAXIMUM_DISTINCT", 2)
    values = measured([a_row(0, c="a"), a_row(1, c="b")], [a_row(2, c="c")]).features["c"].values
    assert values == ValueCounts(distinct=3, values=(), complete=False)


any_row = st.builds(
    a_row,
    st.integers(0, 1000),
    x=st.none() | st.floats(-1e300, 1e300),
    c=st.none() | st.sampled_from("abcd"),
    y=st.integers(0, 1),
)


@given(st.lists(any_row, min_size=1, max_size=60), st.randoms())
def test_the_order_of_rows_and_merges_leaves_no_trace(rows: list[dict], chance: random.Random):
    before = accumulators.SAMPLE_ROWS
    accumulators.SAMPLE_ROWS = 8  # so that the sample, too, is a real choice
    try:
        expected = measured(rows)
        chance.shuffle(rows)
        cut = chance.randrange(len(rows) + 1)
        assert measured(rows[cut:], rows[:cut]) == expected
    finally:
        accumulators.SAMPLE_ROWS = before


@pytest.mark.parametrize(
    ("feature", "values"), [(Numeric(name="x"), [1.5, None]), (Categorical(name="x"), ["secret", None])]
)
def test_without_statistics_it_is_only_counted(feature: Feature, values: list):
    feature = dataclasses.replace(feature, statistics="none")
    gathered = accumulators.gathered_of(feature)
    gathered.add(np.arange(2, dtype=np.uint64), pa.array(values))
    assert gathered.result(feature) == FeatureStatistics(name="x", dtype=feature.dtype, present=1, missing=1)


def test_numbers_of_long_lists_are_summed_in_parts(monkeypatch: pytest.MonkeyPatch):
    schema = Schema(name="s", features=(Tensor(name="v", dimensions=(512,), number="int64"),))
    values = pa.array(np.random.default_rng(0).integers(0, 1000, 1 << 20))
    lists = pa.FixedSizeListArray.from_arrays(values, 512)
    order = pa.array(np.arange(len(lists), dtype=np.uint64) * 7919 % 1009)
    rows = pa.record_batch([order, lists], schema=arrow_schema(schema))

    def peak_and_result() -> tuple[int, SplitStatistics]:
        tracemalloc.start()
        result = encoding.results(measuring.gathered(schema, rows), schema)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak, result

    peak, result = peak_and_result()
    monkeypatch.setattr(accumulators, "_NUMBERS_AT_ONCE", 1 << 20)
    peak_at_once, result_at_once = peak_and_result()
    assert result == result_at_once
    assert peak < peak_at_once / 2
    assert result.features["v"].numeric.mean == np.mean(values.to_numpy())
