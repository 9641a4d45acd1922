"""The objective of a config, and what is refused."""

import pytest

from pipeline.base.errors import InputError
from pipeline.configs import base
from pipeline.data.dataset.statistics import FeatureStatistics, SplitStatistics, ValueCounts
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.training.experiment import objective
from pipeline.training.tasks.objective import Objective
from tests.shared.parsed import parsed
from tests.shared.tiny_dataset import describe

LABEL = Label(name="y", task="multiclass", classes=("a", "b", "c"))
WEIGHT = Numeric(name="fnlwgt")
NUMBER = Label(name="price", task="regression")


def statistics(*, is_complete: bool = True, **counts: int) -> SplitStatistics:
    values = ValueCounts(distinct=len(counts), values=tuple(counts.items()), complete=is_complete)
    feature = FeatureStatistics(
        name="y", dtype="int64", present=sum(counts.values()), missing=0, values=values
    )
    weights = describe(Schema(name="w", features=(WEIGHT,)), [{"fnlwgt": 3.0}, {"fnlwgt": 5.0}])
    return SplitStatistics(examples=sum(counts.values()), features={"y": feature, **weights.features})


def built(label: Label = LABEL, measured: SplitStatistics | None = None, **settings) -> Objective:
    config = base.get_config()
    config.train.update(settings)
    schema = Schema(name="tiny", features=(WEIGHT, Numeric(name="x"), label))
    return objective.build(parsed(config), schema, measured or statistics(a=60, b=30, c=10))


def test_by_default_it_is_the_tasks():
    for label in (LABEL, NUMBER):
        made = built(label)
        assert (made.label_smoothing, made.class_weights, made.mean_weight) == (0.0, (), None)
        assert objective.announced(parsed(base.get_config()).data, made, label) == ()


def test_balanced_classes_weigh_the_same_and_an_example_weighs_1_on_average():
    weights = built(class_weights=("balanced",)).class_weights
    together = [weight * count for weight, count in zip(weights, (60, 30, 10), strict=True)]
    assert together == pytest.approx([100 / 3] * 3)


def test_weights_as_given():
    made = built(class_weights=(1, 0.5, 0.0), label_smoothing=0.1)
    assert made.class_weights == (1.0, 0.5, 0.0)
    told = "loss       labels smoothed by 0.1; class weights a 1, b 0.5, c 0; evaluations have neither"
    assert objective.announced(parsed(base.get_config()).data, made, LABEL) == (told,)


def test_a_column_of_weights_counts_relative_to_its_mean():
    config = base.get_config()
    config.train.example_weights = "fnlwgt"
    made = built(NUMBER, example_weights="fnlwgt")
    assert made.mean_weight == 4.0
    told = "weights    'fnlwgt' of each example, where 4, the mean, counts as 1; evaluations tell numbers"
    assert objective.announced(parsed(config).data, made, NUMBER) == (f"{told} without and with it",)


@pytest.mark.parametrize(
    "weights",
    [
        (1.0, 2.0),
        (1.0, 2.0, -1.0),
        (0, 0, 0),
        (1, 1, float("nan")),
        ("balance",),
        ("1", "2", "3"),
        (True,) * 3,
    ],
)
def test_other_weights_are_refused_with_the_classes(weights):
    message = r"--config.train.class_weights: received .*or 3 numbers from 0 on, .*one for each of a, b, c"
    with pytest.raises(InputError, match=message):
        built(class_weights=weights)


def test_a_class_without_examples_cannot_be_balanced():
    with pytest.raises(InputError, match="the train split has no example of b, c"):
        built(measured=statistics(a=9), class_weights=("balanced",))


def test_classes_that_were_not_counted_cannot_be_balanced():
    with pytest.raises(InputError, match="label 'y' was not counted"):
        built(measured=statistics(is_complete=False, a=9), class_weights=("balanced",))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_smoothing": 0.1}, "expected 0 for label 'price', whose task is regression"),
        ({"class_weights": ("balanced",)}, r"expected \(\) for label 'price', which has no classes"),
    ],
)
def test_a_regression_has_no_classes(settings, message):
    with pytest.raises(InputError, match=message):
        built(NUMBER, **settings)
