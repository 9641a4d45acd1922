"""What is learned from statistics needs them."""

import pytest

from pipeline.base.errors import InputError
from pipeline.data.preprocessing.preprocess import check_measured
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Categorical, Label, Numeric, Text
from pipeline.data.schema.schema import Schema

NONE = "none"


@pytest.mark.parametrize(
    "feature", [Numeric(name="x", statistics=NONE), Categorical(name="x", statistics=NONE)]
)
def test_an_input_without_statistics_to_learn_from_is_refused(feature: Feature):
    with pytest.raises(InputError, match="feature 'x' as a model's input"):
        check_measured(Schema(name="s", features=(feature,)))


def test_others_need_none():
    features = (
        Text(name="t", statistics=NONE),
        Categorical(name="listed", vocabulary=("a",), statistics=NONE),
        Categorical(name="hashed", encoding="hashed", buckets=2, statistics=NONE),
        Label(name="y", task="regression", statistics=NONE),
    )
    check_measured(Schema(name="s", features=features))
