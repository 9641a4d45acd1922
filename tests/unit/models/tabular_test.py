"""The encoding against NumPy, and what members share and do not share."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.tabular import MeanOfMembers, PiecewiseLinear, tabular

DRAW = np.random.default_rng(0)
CUTS = ((-1.0, 0.0, 0.5, 2.0), (), (-3.0, 3.0))
NUMBERS = DRAW.normal(size=(7, 3), scale=2.0).astype("float32")
SIZES = {"numeric": 3, "cardinalities": (3, 4), "sequences": {"words": (4, 10)}, "boundaries": CUTS}
INPUTS = {
    "numeric": NUMBERS,
    "categories": DRAW.integers(0, 3, (7, 2)).astype("int32"),
    "words": DRAW.integers(0, 10, (7, 4)).astype("int32"),
}


def small(**changes) -> keras.Model:
    given = {"outputs": 1, "bins": 4, "embedding": 2, "members": 3, "hidden": (4,), "dropout": 0.0}
    return tabular(**(SIZES | given | changes))


def moved(model: keras.Model) -> keras.Model:
    """With weights of which none is 0 or alike."""
    for weight in model.trainable_variables:
        weight.assign(weight + 0.3 * DRAW.normal(size=weight.shape))
    return model


def encoded(x: float, cuts: tuple[float, ...]) -> list[float]:
    """The parts of the bins below a number, as the paper's equation has them, cut at both ends."""
    return [
        0.0 if x < low else 1.0 if x >= high else (x - low) / (high - low)
        for low, high in itertools.pairwise(cuts)
    ]


def test_the_encoding_against_numpy():
    layer = PiecewiseLinear(CUTS, bins=4, size=2)
    layer.build((None, 3))
    for weight in (layer.line, layer.offset, layer.pieces):
        weight.assign(DRAW.normal(size=weight.shape))
    line, offset, pieces = (np.asarray(each) for each in (layer.line, layer.offset, layer.pieces))
    expected = np.zeros((7, 3, 2))
    for row, column in np.ndindex(7, 3):
        x = float(NUMBERS[row, column])
        expected[row, column] = x * line[column] + offset[column]
        for part, weights in zip(encoded(x, CUTS[column]), pieces[column], strict=False):
            expected[row, column] += part * weights
    np.testing.assert_allclose(layer(NUMBERS), expected.reshape(7, 6), rtol=1e-4, atol=1e-5)


def test_the_encoding_begins_as_a_line():
    layer = PiecewiseLinear(CUTS, bins=4, size=2)
    at = np.array([[-2.0] * 3, [0.0] * 3, [2.0] * 3], "float32")
    low, middle, high = np.asarray(layer(at))
    np.testing.assert_allclose(high - middle, middle - low, rtol=1e-5)


@pytest.mark.parametrize(
    ("cuts", "bins", "kept"),
    [
        ((0.0, 0.0, 1.0), 4, (0.0, 1.0)),
        ((0.0, 1e-9, 1.0), 4, (0.0, 1.0)),  # no part of such a bin could be told in float32
        ((0.0, 2e-7, 4e-7, 50.0), 4, (0.0, 2e-7, 4e-7, 50.0)),  # beside one value that is far from all others
        ((3.0, 3.000001, 4.0), 4, (3.0, 4.0)),
        ((5.0,), 4, ()),
        (tuple(range(9)), 4, (0.0, 2.0, 4.0, 6.0, 8.0)),
        (tuple(range(5)), 4, (0.0, 1.0, 2.0, 3.0, 4.0)),
    ],
)
def test_boundaries_are_thinned_to_the_bins(cuts, bins, kept):
    assert PiecewiseLinear((cuts,), bins=bins, size=1).boundaries == (tuple(np.float32(kept).tolist()),)


@pytest.mark.parametrize("number", [-1e18, 1e18])
def test_the_farthest_number_stays_finite(number):
    layer = PiecewiseLinear(((0.0, 2e-9, 1.0),), bins=4, size=1)
    assert np.isfinite(layer(np.array([[number]], "float32"))).all()


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize(
    ("absent", "names"),
    [
        ({}, ["numeric", "categories", "words"]),
        ({"numeric": 0, "boundaries": ()}, ["categories", "words"]),
        ({"cardinalities": (), "sequences": {}, "boundaries": ()}, ["numeric"]),
        ({"numeric": 0, "cardinalities": (), "boundaries": ()}, ["words"]),
    ],
)
def test_takes_the_inputs_there_are(members, absent, names):
    model = small(members=members, outputs=2, **absent)
    assert [tensor.name for tensor in model.inputs] == names
    assert (model.output.shape, model(INPUTS).shape) == ((None, 2), (7, 2))


def test_bins_of_a_number_are_categories_where_they_are_few():
    sizes = {"cardinalities": (5, 33, 9), "bin_columns": (1, 2), "sequences": {}}
    table = small(**sizes).get_layer("embeddings").table
    assert table.shape == (5 + 9, 2)
    everything = small(**sizes | {"bin_columns": ()}).get_layer("embeddings").table
    assert everything.shape == (5 + 33 + 9, 2)
    numbers = small(cardinalities=(34,), bin_columns=(0,), sequences={})
    assert [tensor.name for tensor in numbers.inputs] == ["numeric"]


def test_without_bins_numbers_are_features_as_they_are():
    model = small(bins=0, cardinalities=(), sequences={})
    assert model.get_layer("members").gamma.shape == (3, 3)


def test_no_inputs_are_refused():
    with pytest.raises(ValueError, match="received none"):
        small(numeric=0, cardinalities=(), sequences={})


@pytest.mark.parametrize("changes", [{"members": 0}, {"bins": -1}])
def test_too_few_are_refused(changes):
    with pytest.raises(ValueError, match="expected at least 1, and 0"):
        small(**changes)


def test_a_member_is_a_network_of_its_own():
    """Against NumPy, from the features on; and the answer is the members' mean."""
    model = moved(small(cardinalities=(), sequences={}))
    encoding, signs, (hidden, last) = model.get_layer("numbers"), model.get_layer("members"), _dense(model)
    features = np.asarray(encoding(NUMBERS))
    linear = 3 * NUMBERS @ np.asarray(model.get_layer("linear_numbers").kernel)
    for member in range(3):
        seen = features * np.asarray(signs.gamma)[member]
        units = np.maximum(seen @ np.asarray(hidden.kernel) + np.asarray(hidden.bias), 0)
        own = units @ np.asarray(last.kernel)[member] + np.asarray(last.bias)[member] + linear
        for call in (model, tf.function(model, autograph=False)):  # TensorFlow rewrites a graph
            np.testing.assert_allclose(call(INPUTS, training=True)[:, member], own, rtol=1e-4, atol=1e-5)
    each = np.asarray(model(INPUTS, training=True))
    assert each.shape == (7, 3, 1)
    np.testing.assert_allclose(model(INPUTS), each.mean(axis=1), rtol=1e-5, atol=1e-6)


def _dense(model: keras.Model) -> tuple[keras.Layer, keras.Layer]:
    return next(each for each in model.layers if each.name.startswith("dense")), model.get_layer("deep")


def test_the_signs_begin_as_signs():
    signs = np.asarray(small(members=64).get_layer("members").gamma)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert 0.4 < (signs > 0).mean() < 0.6


def test_the_mean_is_of_members():
    logits = DRAW.normal(size=(5, 3, 2)).astype("float32")
    np.testing.assert_allclose(MeanOfMembers()(logits), logits.mean(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(MeanOfMembers()(logits, training=True), logits)
