"""Numbers are standardised in float64 only where float32 would lose some of them."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary
from pipeline.data.preprocessing.numbers import standardized
from pipeline.data.schema.kinds import Numeric


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
    summary = NumericSummary(minimum=0, maximum=0, mean=mean, std=std, zeros=0, quantiles=())
    statistics = FeatureStatistics(name="x", dtype=number, present=9, missing=0, numeric=summary)
    standardize = tf.function(standardized(Numeric(name="x", number=number), statistics))
    draw = np.random.default_rng(0).normal(size=1000)
    values = (mean + (std or 1.0) * draw).astype(number)
    found = standardize(tf.constant(values))
    expected = (values.astype(np.float64) - mean) / (std or 1.0)
    np.testing.assert_allclose(found[:, 0].numpy(), expected, rtol=0, atol=1e-5)
    operations = standardize.get_concrete_function(tf.TensorSpec([None], number)).graph.get_operations()
    types = {tensor.dtype for operation in operations for tensor in operation.outputs}
    assert (tf.float64 in types) == in_float64
