"""The objective of a config, and what is refused."""

import math

import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.configs import base
from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics, ValueCounts
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.training.experiment import example_weights, objective
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
        assert objective.announced(parsed(base.get_config()), made, label) == ()


def test_balanced_classes_weigh_the_same_and_an_example_weighs_1_on_average():
    weights = built(class_weights=("balanced",)).class_weights
    together = [weight * count for weight, count in zip(weights, (60, 30, 10), strict=True)]
    assert together == pytest.approx([100 / 3] * 3)


def test_weights_as_given():
    made = built(class_weights=(1, 0.5, 0.0), label_smoothing=0.1)
    assert made.class_weights == (1.0, 0.5, 0.0)
    told = "loss       labels smoothed by 0.1; class weights a 1, b 0.5, c 0; evaluations have neither"
    assert objective.announced(parsed(base.get_config()), made, LABEL) == (told,)


def test_several_targets_are_squared_each_in_its_own_spread():
    targets = (Label(name="price", task="regression"), Label(name="area", task="regression"))
    rows = [{"price": 1.0, "area": 1000.0}, {"price": 3.0, "area": 5000.0}]
    schema = Schema(name="two", features=(Numeric(name="x"), *targets))
    measured = describe(Schema(name="two", features=targets), rows)
    made = objective.build(parsed(base.get_config()), schema, measured)
    assert (made.units, made.unit((1.0, 2000.0))) == ((1.0, 2000.0), 1.0)
    labels, logits = tf.constant([[1.0, 1000.0]]), tf.constant([[2.0, 5000.0]])
    assert made.losses(labels, logits).numpy() == pytest.approx([(1 + 2.0**2) / 2])


def test_several_labels_of_two_classes_have_no_unit():
    pairs = (Label(name="a", classes=("no", "yes")), Label(name="b", classes=("no", "yes")))
    measured = describe(Schema(name="two", features=pairs), [{"a": 0, "b": 1}, {"a": 1, "b": 1}])
    schema = Schema(name="two", features=(Numeric(name="x"), *pairs))
    made = objective.build(parsed(base.get_config()), schema, measured)
    losses = made.losses(tf.constant([[0, 1]]), tf.zeros([1, 2]))
    assert (made.units, losses.numpy()) == ((), pytest.approx([math.log(2)]))


@pytest.mark.parametrize("weights", [("balanced",), (1.0, 2.0, 3.0)])
def test_classes_of_which_a_row_has_several_have_no_weights(weights):
    several = Label(name="y", task="multilabel", classes=("a", "b", "c"))
    assert built(several, label_smoothing=0.1).label_smoothing == 0.1
    with pytest.raises(InputError, match=r"class_weights.*any number of classes.*example_weights weighs"):
        built(several, class_weights=weights)


def test_a_column_of_weights_counts_relative_to_its_mean():
    config = base.get_config()
    config.train.example_weights = "fnlwgt"
    made = built(NUMBER, example_weights="fnlwgt")
    assert made.mean_weight == 4.0
    told = "weights    'fnlwgt' of each example, where 4, the mean, counts as 1; evaluations tell numbers"
    assert objective.announced(parsed(config), made, NUMBER) == (f"{told} without and with it",)


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


# Which column weighs the examples, and what counts as a weight of 1.

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


def weighted_statistics(*weights: float) -> SplitStatistics:
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
    assert example_weights.mean(SCHEMA["fnlwgt"], weighted_statistics(1.0, 2.0, 6.0)) == 3.0
    weights = Numeric(name="w", offset=10.0, missing="default", default=4.0)
    split = SplitStatistics(examples=4, features={"w": measured(1.0, missing=1)})
    assert example_weights.mean(weights, split) == pytest.approx((3 * 12.0 + 4.0) / 4)


@pytest.mark.parametrize("weights", [(0.0, 0.0), (-1.0, -2.0)])
def test_weights_that_are_all_zero_are_refused(weights):
    with pytest.raises(InputError, match=r"received 'fnlwgt', of mean .*; expected weights from 0 on, some"):
        example_weights.mean(SCHEMA["fnlwgt"], weighted_statistics(*weights))


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
