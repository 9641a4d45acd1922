"""DCN's layers beside NumPy's formulas, and what the network takes."""

import numpy as np
import pytest

from models.dcn import Cross, Dots, dcn

DRAW = np.random.default_rng(3)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_cross_layer_is_the_formula(rank):
    first, x = DRAW.normal(size=(2, 4, 5)).astype("float32")
    layer = Cross(rank)
    layer.build(first.shape, x.shape)
    layer.bias.assign(DRAW.normal(size=5))
    weights = {each.name: np.asarray(each, "float64") for each in layer.weights}
    kernel = weights["down"] @ weights["kernel"] if rank else weights["kernel"]
    expected = first * (x @ kernel + weights["bias"]) + x
    np.testing.assert_allclose(layer(first, x), expected, rtol=0, atol=1e-5)


def test_dots_are_those_of_all_pairs():
    vectors = DRAW.normal(size=(3, 4, 6)).astype("float32")
    expected = [[one[i] @ one[j] for i in range(4) for j in range(i)] for one in vectors]
    np.testing.assert_allclose(Dots()(vectors), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("interaction", ["cross", "dot"])
@pytest.mark.parametrize("numeric", [0, 3])
def test_numbers_are_optional(interaction, numeric):
    model = dcn(numeric=numeric, cardinalities=(3, 4), outputs=2, hidden=(8,), interaction=interaction)
    inputs = {"categories": np.array([[0, 3], [2, 1]], "int32")}
    if numeric:
        inputs["numeric"] = np.ones((2, numeric), "float32")
    assert model(inputs).shape == (2, 2)


def test_what_it_cannot_build_is_refused():
    with pytest.raises(ValueError, match="categorical inputs"):
        dcn(numeric=2, cardinalities=(), outputs=1)
    with pytest.raises(ValueError, match="expected one of cross, dot"):
        dcn(numeric=2, cardinalities=(3,), outputs=1, interaction="plus")
