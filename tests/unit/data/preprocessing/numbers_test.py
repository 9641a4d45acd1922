"""Numbers are standardised in float64 only where float32 would lose some of them; columns go together."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary
from pipeline.data.preprocessing.numbers import (
    FARTHEST,
    bin_ids,
    bounded,
    standardized,
    standardized_quantiles,
    texts_of,
)
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.feature_types import Numeric


def measured(name: str, dtype: str, mean: float, std: float, **more: object) -> FeatureStatistics:
    summary = {"minimum": 0, "maximum": 0, "mean": mean, "std": std, "zeros": 0, "quantiles": ()} | more
    return FeatureStatistics(name=name, dtype=dtype, present=9, missing=0, numeric=NumericSummary(**summary))


@pytest.mark.parametrize(
    ("number", "mean", "std", "in_float64"),
    [
        ("float32", 0.5, 2.0, False),
        ("float32", -8.0, 1.0, False),
        ("float32", 7.0, 0.0, False),  # constant
        ("float32", 1e-31, 1e-30, False),
        ("float32", 100.0, 1.0, True),
        ("float32", 0.0, 1e37, True),
        ("float32", 1e-33, 2e-33, True),
        ("int64", 0.5, 2.0, True),
    ],
)
def test_differences_are_within_1e_5_of_float64(number: str, mean: float, std: float, in_float64: bool):
    statistics = {"x": measured("x", number, mean, std)}
    standardize = tf.function(standardized([Numeric(name="x", number=number)], statistics))
    draw = np.random.default_rng(0).normal(size=1000)
    values = (mean + (std or 1.0) * draw).astype(number)
    found = standardize(tf.constant(values))
    expected = (values.astype(np.float64) - mean) / (std or 1.0)
    np.testing.assert_allclose(found[:, 0].numpy(), expected, rtol=0, atol=1e-5)
    operations = standardize.get_concrete_function(tf.TensorSpec([None], number)).graph.get_operations()
    types = {tensor.dtype for operation in operations for tensor in operation.outputs}
    assert (tf.float64 in types) == in_float64


COLUMNS = {  # each a type, a mean, a standard deviation and quantiles; neighbours differ in all of them
    "a": ("float32", 0.5, 2.0, (-9.0, 0.0, 1.0, 9.0)),
    "b": ("int64", 2.0**60, 2.0**40, (0.0, 2.0**60 - 2.0**39, 2.0**60 + 2.0**40, 2.0**61)),
    "c": ("float32", 100.0, 1.0, (90.0, 99.5, 110.0)),
    "d": ("float32", -8.0, 4.0, (-20.0, -9.0, -8.0, -7.0, 5.0)),
    "e": ("int64", -3.0, 0.0, ()),
}


def columns_of_all_kinds() -> tuple[list[Numeric], dict[str, FeatureStatistics], list[np.ndarray]]:
    features = [Numeric(name=name, number=of[0]) for name, of in COLUMNS.items()]
    statistics = {
        name: measured(name, dtype, mean, std, quantiles=quantiles)
        for name, (dtype, mean, std, quantiles) in COLUMNS.items()
    }
    draw = np.random.default_rng(1)
    values = [
        (mean + 2 * (std or 1.0) * draw.normal(size=50)).astype(dtype)
        for dtype, mean, std, _ in COLUMNS.values()
    ]
    values[0][:3] = np.nan, np.inf, -np.inf
    values[1][:2] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    return features, statistics, values


def test_columns_of_several_types_keep_their_order():
    features, statistics, values = columns_of_all_kinds()
    found = standardized(features, statistics)(*map(tf.constant, values)).numpy()
    for column, numbers, (_, mean, std, _) in zip(found.T, values, COLUMNS.values(), strict=True):
        expected = (numbers.astype(np.float64) - mean) / (std or 1.0)
        np.testing.assert_allclose(column, expected, rtol=1e-6, atol=1e-5)


def test_bins_are_those_of_each_column_by_itself():
    features, statistics, values = columns_of_all_kinds()
    transform, ids = bin_ids(features, statistics)
    found = transform(*map(tf.constant, values)).numpy()
    for column, numbers, count, (_, _, _, quantiles) in zip(
        found.T, values, ids, COLUMNS.values(), strict=True
    ):
        boundaries = [int(each) if numbers.dtype == np.int64 else each for each in quantiles[1:-1] or (0.0,)]
        expected = [
            0 if each != each else 1 + sum(b <= each for b in boundaries) for each in numbers.tolist()
        ]
        assert column.tolist() == expected
        assert count == len(boundaries) + 2


def test_quantiles_are_the_finest_there_are_and_in_the_units_of_the_numbers():
    features = [Numeric(name=name) for name in ("fine", "coarse", "constant", "unknown")]
    statistics = {
        "fine": measured("fine", "float32", 4, 2, quantiles=(0, 8), distribution=(0, 3, 3, 8)),
        "coarse": measured("coarse", "float32", 4, 2, quantiles=(0, 6, 8)),
        "constant": measured("constant", "float32", 5, 0, quantiles=(5, 5)),
        "unknown": FeatureStatistics(name="unknown", dtype="float32", present=0, missing=9),
    }
    found = standardized_quantiles(features, statistics)
    assert found == ((-2.0, -0.5, 2.0), (-2.0, 1.0, 2.0), (0.0,), ())


@pytest.mark.parametrize(
    ("number", "repeated", "values"),
    [
        ("float32", (-1.0, 0.0, 7.5), [-1.0, 0.0, 7.5]),
        ("float32", (0.1,), [0.1]),  # rounded as the records' numbers were
        ("int64", (0.0, 40.0), [0, 40]),
    ],
)
def test_a_number_that_comes_often_has_a_bin_of_its_own(number: str, repeated: tuple, values: list):
    statistics = measured("x", number, 0, 1, quantiles=(-9, 0.5, 9), repeated=repeated)
    transform, (count,) = bin_ids([Numeric(name="x", number=number)], {"x": statistics})
    values = np.array(values, number)
    step = 1 if number == "int64" else np.maximum(np.abs(values) * np.float32(2e-7), np.float32(2e-38))
    neighbours = np.concatenate([values - step, values + step])
    own = transform(tf.constant(values)).numpy()[:, 0]
    others = transform(tf.constant(neighbours.astype(number))).numpy()[:, 0]
    assert len(set(own)) == len(values)
    assert not set(own) & set(others)
    assert max(own.max(), others.max()) < count


def test_bins_are_the_same_in_threads_that_take_the_smallest_numbers_for_zero():
    statistics = measured("x", "float32", 0, 1, zeros=9, quantiles=(0, 0, 1), repeated=(0.0, 1e-40))
    transform, _ = bin_ids([Numeric(name="x")], {"x": statistics})
    zero, tiny, one = transform(tf.constant([0.0, 1e-40, 1.0])).numpy()[:, 0]
    assert zero == tiny != one


FAR = np.float32(FARTHEST)
UGLY = [np.nan, np.inf, -np.inf, FAR, -FAR, np.nextafter(FAR, np.float32(np.inf)), -3e38, 1e-40, -0.0]


@pytest.mark.parametrize("ugly", [[each] for each in UGLY] + [UGLY, []], ids=str)
@pytest.mark.parametrize("shape", [(-1,), (-1, 3)])
def test_what_a_model_gets_is_bounded_and_the_rest_stays_as_it_is(ugly: list[float], shape: tuple[int, ...]):
    usual = np.random.default_rng(0).normal(size=996 - len(ugly))
    given = np.concatenate([usual, ugly, [1e-40, FAR / 2, -1e9]]).astype(np.float32).reshape(shape)
    expected = np.where(np.isnan(given), np.float32(0), np.clip(given, -FAR, FAR))
    in_threads = tf.data.Dataset.from_tensors(given).map(bounded)  # which take the smallest numbers for 0
    for found in (bounded(tf.constant(given)), next(iter(in_threads))):
        assert found.numpy().tobytes() == expected.tobytes()


def test_no_numbers_are_bounded():
    assert bounded(tf.zeros([0, 3])).shape == (0, 3)


def test_a_stored_number_is_spelled_shortly_and_is_read_as_itself():
    price = Numeric(name="price", clean=Clean(decimal=","))
    numbers = np.float32([3.8, 0.1, 1e-7, 16777216, np.nan])
    assert texts_of(price, numbers) == ["3,8", "0,1", "0,0000001", "16777216", ""]
    drawn = np.random.default_rng(0).normal(scale=1e3, size=10_000).astype(np.float32)
    assert (np.array(texts_of(Numeric(name="x"), drawn), np.float64).astype(np.float32) == drawn).all()
