"""Feature names are identifiers."""

import pytest

from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema, check_names, identifiers, is_identifier


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["age", "Plan", "x_1"], ["age", "Plan", "x_1"]),
        (["plan type", "plan?", "größe"], ["plan_type", "plan", "grosse"]),
        (["class", "self", "2nd", "_id"], ["class_", "self_", "column_2nd", "id"]),
        (["#1", "数", "--"], ["column_1", "column_2", "column_3"]),
        (["a b", "a_b", "a.b"], ["a_b_2", "a_b", "a_b_3"]),
        (["Age", "age", "AGE_2"], ["Age", "age_2", "AGE_2_2"]),
        (["price#2", "price#4", "image/encoded"], ["price_2", "price_4", "image_encoded"]),
    ],
)
def test_each_column_gets_an_identifier_of_its_own(columns, names):
    found = identifiers(columns)
    assert (list(found), list(found.values())) == (columns, names)
    assert all(map(is_identifier, names))


@pytest.mark.parametrize("name", ["plan type", "größe", "plan?", "class", "2nd", "a.b", "_id"])
def test_another_name_in_a_schema_is_refused_with_the_remedy(name: str):
    schema = Schema(name="s", features=(Numeric(name="plan_type"), Numeric(name=name)))
    with pytest.raises(InputError, match=f'"column": "{name}"'.replace("?", r"\?")):
        check_names(schema)
