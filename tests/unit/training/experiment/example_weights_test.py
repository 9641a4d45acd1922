"""Which column weighs the examples, and what counts as a weight of 1."""

import math

import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.training.experiment import example_weights
from tests.shared.tiny_dataset import describe

SCHEMA = Schema(
    name="census",
    features=(
        Numeric(name="age"),
        Numeric(name="fnlwgt", column="final weight"),
        Categorical(name="city", vocabulary=("Bern",)),
        Label(name="rich", classes=("no", "yes")),
    ),
    ignore={"street": "private"},
)


def statistics(*weights: float) -> SplitStatistics:
    rows = [{"age": 1.0, "fnlwgt": weight, "city": "Bern", "rich": 0} for weight in weights]
    return describe(SCHEMA, rows)


def measured(low: float, *, missing: int = 0, mean: float = 2.0) -> FeatureStatistics:
    numeric = NumericSummary(minimum=low, maximum=9.0, mean=mean, std=1.0, zeros=0, quantiles=())
    return FeatureStatistics(name="w", dtype="float32", present=3, missing=missing, numeric=numeric)


def test_by_default_no_column_does_and_all_are_fed_to_the_model():
    assert example_weights.column("", SCHEMA) is None
    assert example_weights.fed("", SCHEMA) is SCHEMA


def test_the_column_is_no_feature_but_may_stand_in_raw_data():
    assert example_weights.column("fnlwgt", SCHEMA) is SCHEMA["fnlwgt"]
    fed = example_weights.fed("fnlwgt", SCHEMA)
    assert [feature.name for feature in fed.features] == ["age", "city", "rich"]
    assert dict(fed.ignore) == {"street": "private", "final weight": "weighs examples in training"}


def test_a_raw_column_that_another_feature_reads_is_not_ignored():
    both = Schema(name="twice", features=(*SCHEMA.features, Numeric(name="also", column="final weight")))
    fed = example_weights.fed("fnlwgt", both)
    assert "final weight" in fed.columns
    assert not fed.ignore


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fnlwgth", r"received 'fnlwgth'; expected a feature of kind numeric: age, fnlwgt.*'fnlwgt'\?"),
        ("city", "received 'city'; expected a feature of kind numeric.* Give it that kind in the schema"),
        ("rich", "received 'rich'; expected a feature of kind numeric"),
    ],
)
def test_another_column_is_refused_with_those_there_are(name, message):
    with pytest.raises(InputError, match=rf"--config.train.example_weights: {message}"):
        example_weights.column(name, SCHEMA)


def test_the_model_must_be_fed_with_something_else():
    alone = Schema(name="alone", features=(Numeric(name="w"), Label(name="y", classes=("no", "yes"))))
    with pytest.raises(InputError, match="this is all that the model is fed with"):
        example_weights.column("w", alone)


def test_the_mean_is_of_raw_numbers_with_those_that_stand_for_missing_ones():
    assert example_weights.mean(SCHEMA["fnlwgt"], statistics(1.0, 2.0, 6.0)) == 3.0
    weights = Numeric(name="w", offset=10.0, missing="default", default=4.0)
    split = SplitStatistics(examples=4, features={"w": measured(1.0, missing=1)})
    assert example_weights.mean(weights, split) == pytest.approx((3 * 12.0 + 4.0) / 4)


@pytest.mark.parametrize("weights", [(0.0, 0.0), (-1.0, -2.0)])
def test_weights_that_are_all_zero_are_refused(weights):
    with pytest.raises(InputError, match=r"received 'fnlwgt', of mean .*; expected weights from 0 on, some"):
        example_weights.mean(SCHEMA["fnlwgt"], statistics(*weights))


def test_a_column_without_statistics_is_refused():
    unknown = FeatureStatistics(name="fnlwgt", dtype="float32", present=3, missing=0)
    with pytest.raises(InputError, match=r"'fnlwgt'; expected a column whose statistics were kept"):
        example_weights.mean(SCHEMA["fnlwgt"], SplitStatistics(examples=3, features={"fnlwgt": unknown}))


@pytest.mark.parametrize(
    ("weights", "found", "expected"),
    [
        (Numeric(name="w"), measured(0.0), False),
        (Numeric(name="w"), measured(-0.5), True),
        (Numeric(name="w"), measured(-math.inf), True),
        (Numeric(name="w", offset=1.0), measured(-0.5), False),
        (Numeric(name="w", missing="mark"), measured(0.0), False),
        (Numeric(name="w", missing="mark"), measured(0.0, missing=1), True),
        (Numeric(name="w", missing="default", default=1), measured(0.0, missing=1), False),
        (Numeric(name="w", missing="default", default=-1), measured(0.0, missing=1), True),
        (Numeric(name="w", statistics="none"), None, True),
    ],
)
def test_statistics_say_whether_the_data_must_be_read(weights, found, expected):
    assert example_weights.may_hold_others(weights, found) is expected
