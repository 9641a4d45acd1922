"""Labels' mean and spread, from what the conversion measured."""

import pytest

from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics
from pipeline.data.preprocessing.preprocess import LabelScale, label_scale
from pipeline.data.schema.feature_types import Label

PRICE, SICK = Label(name="price", task="regression"), Label(name="sick", classes=("no", "yes"))


def statistics(mean: float, std: float) -> SplitStatistics:
    summary = NumericSummary(minimum=0.0, maximum=9.0, mean=mean, std=std, zeros=0, quantiles=())
    price = FeatureStatistics(name="price", dtype="float32", present=9, missing=0, numeric=summary)
    return SplitStatistics(examples=9, features={"price": price})


@pytest.mark.parametrize(
    ("mean", "std", "spread"), [(2000.0, 5.0, 5.0), (1e-6, 1e-7, 1e-7), (-3.0, 0.0, 3.0), (0.0, 0.0, 1.0)]
)
def test_of_a_regression(mean, std, spread):
    assert label_scale(PRICE, statistics(mean, std)) == LabelScale(mean=mean, spread=spread)


def test_classes_have_no_unit():
    assert label_scale(SICK, statistics(5.0, 2.0)) == LabelScale(mean=0.0, spread=1.0)
