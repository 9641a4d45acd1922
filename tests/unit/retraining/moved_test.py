"""A report tells numbers as the raw data has them."""

import pytest

from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, ValueCounts
from pipeline.data.schema.feature_types import Categorical, Datetime, Numeric
from pipeline.retraining.report import centre


def numeric(mean: float, dtype: str = "float32") -> FeatureStatistics:
    summary = NumericSummary(mean=mean, std=1.0, minimum=mean, maximum=mean, zeros=0, quantiles=())
    return FeatureStatistics(name="x", dtype=dtype, present=10, missing=0, numeric=summary)


@pytest.mark.parametrize(
    ("declared", "mean", "told"),
    [
        (Numeric(name="x"), 3.25, "3.25"),
        (Numeric(name="x", offset=-73.9), 0.4, "-73.5"),
        (Datetime(name="x", format="%Y-%m-%d"), 1_793_534_400e6, "2026-11-01 12:00:00+00:00"),
    ],
)
def test_the_mean_is_told_as_the_raw_data_has_it(declared, mean, told):
    assert centre(numeric(mean), declared) == told


def test_the_commonest_value_may_be_empty():
    counts = ValueCounts(values=(("", 6), ("a", 4)), distinct=2, complete=True)
    feature = FeatureStatistics(name="x", dtype="string", present=10, missing=0, values=counts)
    assert centre(feature, Categorical(name="x")) == "(empty) (60.0 %)"
