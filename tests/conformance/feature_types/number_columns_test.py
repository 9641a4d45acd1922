"""A column of numbers reaches a model as float64 would standardise it, or is refused before training."""

import pytest

from tests.conformance.feature_types.number_columns import COLUMNS, outcome


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_standardised_as_by_float64_or_refused(name):
    found = outcome(name)
    if found.refused:
        assert "expected at most 1e-05" in found.refused
        assert "train will refuse it" in found.said  # by convert
        return
    assert max(found.stored, found.raw) <= 1e-5
    assert found.served == 0.0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("unix s of an hour, as float32", "1.04e+03; float32 rounds such numbers by up to 0.097"),
        ("2^60 and 1,000 more", "make it categorical if the numbers are names"),
    ],
)
def test_a_column_that_is_not_told_apart_names_the_way_out(name, says):
    assert says in outcome(name).refused


@pytest.mark.parametrize("name", ["unix s of an hour", "degrees of a town", "1 and 1e-9 more"])
def test_the_way_out_for_float32_is_an_offset(name):
    column = name if COLUMNS[name][0] == "float32" else f"{name}, as float32"
    assert 'Declare "offset": ' in outcome(column).refused
    offsets = [other for other in COLUMNS if other.startswith(f"{name} less ")]
    assert [outcome(other).refused for other in offsets] == [""]
