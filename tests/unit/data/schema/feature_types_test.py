"""A table with an entry a kind: what it gives, and what it asks for."""

import pickle

import pytest

from pipeline.data.schema.feature_types import (
    FEATURE_TYPES,
    FeatureTypeTable,
    MissingFeatureTypeError,
    Numeric,
    Text,
)
from tests.conformance.feature_types.tables import kind_tables

TABLE = FeatureTypeTable(where="a.room", question="what is said", entry="a word", entries={Numeric: "one"})


def test_an_entry_is_found_by_the_kind_of_a_feature():
    assert TABLE.of(Numeric(name="n")) == "one"
    assert TABLE.lacks(Numeric) == ""


def test_a_missing_entry_says_where_it_belongs_and_what_it_is():
    message = (
        "a.room, the table of what is said: received Text; expected one of Numeric. "
        "Add an entry for Text: a word."
    )
    with pytest.raises(MissingFeatureTypeError) as raised:
        TABLE.of(Text(name="t"))
    assert str(raised.value) == TABLE.lacks(Text) == message
    assert str(pickle.loads(pickle.dumps(raised.value))) == message  # as Beam sends what workers raise


@pytest.mark.parametrize("where", sorted(kind_tables()))
def test_every_table_of_the_product_has_every_kind_and_no_other(where):
    table = kind_tables()[where]
    assert [table.lacks(kind) for kind in FEATURE_TYPES.values() if kind not in table.entries] == []
    assert set(table.entries) == set(FEATURE_TYPES.values())
