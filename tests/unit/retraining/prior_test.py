"""What a first model must beat: shares of the training labels, counted by hand."""

import numpy as np
import pytest

from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics, ValueCounts
from pipeline.data.schema.feature_types import Label
from pipeline.retraining.stages import prior_of


def measured(**more):
    feature = FeatureStatistics(name="y", dtype="string", present=10, missing=0, **more)
    return SplitStatistics(examples=10, features={"y": feature})


def counted(*values, complete=True):
    return measured(values=ValueCounts(distinct=len(values), values=values, complete=complete))


def test_of_two_classes_it_is_the_share_of_the_second():
    label = Label(name="y", classes=("no", "yes"))
    assert prior_of(counted(("no", 7), ("yes", 3)), label) == pytest.approx(0.3)
    assert prior_of(counted(("no", 7)), label) == 0.0


def test_a_class_is_known_by_its_name_whatever_its_number():
    label = Label(name="y", classes=("1", "2", "3"), task="multiclass")
    np.testing.assert_allclose(prior_of(counted(("2", 6), ("1", 4)), label), [0.4, 0.6, 0.0])


def test_of_many_classes_it_is_each_ones_share():
    label = Label(name="y", classes=("a", "b", "c"), task="multiclass")
    np.testing.assert_allclose(prior_of(counted(("c", 5), ("a", 3), ("b", 2)), label), [0.3, 0.2, 0.5])


def test_of_numbers_it_is_the_mean():
    numeric = NumericSummary(minimum=0, maximum=9, mean=4.5, std=1, zeros=1, quantiles=(0, 9))
    assert prior_of(measured(numeric=numeric), Label(name="y", task="regression")) == 4.5


@pytest.mark.parametrize("statistics", [counted(complete=False), counted(), measured()])
def test_what_nobody_counted_is_not_known(statistics):
    assert prior_of(statistics, Label(name="y", classes=("no", "yes"))) is None
