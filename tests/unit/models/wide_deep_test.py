"""Every combination of inputs gives a model, and each part does what it says."""

import keras
import numpy as np
import pytest

from models.embedding import OffsetEmbedding
from models.features import PeriodicFeatures
from models.wide_deep import wide_deep

NUMERIC = np.array([[0.5, -1.0], [2.0, 0.0]], "float32")
CATEGORIES = np.array([[0, 3], [2, 0]], "int32")
WORDS = np.array([[5, 1, 0, 0], [7, 0, 0, 0]], "int32")
INPUTS = {"numeric": NUMERIC, "categories": CATEGORIES, "words": WORDS}
SIZES = {"numeric": 2, "cardinalities": (3, 4), "sequences": {"words": (4, 10)}}


def small(**changes) -> keras.Model:
    return wide_deep(**(SIZES | {"outputs": 1, "embedding": 2, "hidden": (4,)} | changes))


@pytest.mark.parametrize(
    ("absent", "names"),
    [
        ({}, ["numeric", "categories", "words"]),
        ({"numeric": 0}, ["categories", "words"]),
        ({"cardinalities": ()}, ["numeric", "words"]),
        ({"sequences": {}}, ["numeric", "categories"]),
        ({"numeric": 0, "sequences": {}}, ["categories"]),
        ({"cardinalities": (), "sequences": {}}, ["numeric"]),
        ({"numeric": 0, "cardinalities": ()}, ["words"]),
    ],
)
def test_takes_the_inputs_there_are(absent, names):
    model = small(outputs=3, **absent)
    assert [tensor.name for tensor in model.inputs] == names
    logits = model(INPUTS)
    assert logits.shape == (2, 3)
    assert logits.dtype == "float32"


def test_no_inputs_are_refused():
    with pytest.raises(ValueError, match="received none"):
        small(numeric=0, cardinalities=(), sequences={})


def test_frequencies_below_none_are_refused():
    with pytest.raises(ValueError, match="frequencies: received -2; expected 0"):
        small(frequencies=-2)


def test_columns_have_rows_of_their_own_in_one_table():
    layer = OffsetEmbedding((3, 4), 1)
    layer.build((None, 2))
    layer.table.assign(np.arange(7.0)[:, None])
    np.testing.assert_array_equal(layer(CATEGORIES)[:, :, 0], [[0, 6], [2, 3]])


def test_padding_does_not_change_a_sequence():
    model = small(numeric=0, cardinalities=())
    longer = np.concatenate([WORDS, WORDS * 0], axis=1)
    other = small(numeric=0, cardinalities=(), sequences={"words": (8, 10)})
    other.set_weights(model.get_weights())
    np.testing.assert_allclose(model({"words": WORDS}), other({"words": longer}), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_text_without_words_is_zero_and_leaves_gradients_finite(dtype):
    """An average of no words was NaN, and one such text made all weights so."""
    keras.config.set_dtype_policy(dtype)
    try:
        model = small(numeric=0, cardinalities=())
    finally:
        keras.config.set_dtype_policy("float32")
    model.compile("sgd", "mse")
    model.fit({"words": WORDS * [[1], [0]]}, np.ones((2, 1)), verbose=0)
    assert np.isfinite(model.predict({"words": WORDS * 0}, verbose=0)).all()
    assert all(np.isfinite(weights).all() for weights in model.get_weights())


def test_periodic_features_keep_the_number_and_add_waves():
    layer = PeriodicFeatures(1)
    layer.build((None, 2))
    layer.frequency.assign([[0.25], [0.5]])
    waves = np.asarray(layer(NUMERIC[:1])).reshape(2, 3)  # (number, [itself, sine, cosine])
    angle = 2 * np.pi * NUMERIC[0] * [0.25, 0.5]
    np.testing.assert_allclose(waves, np.stack([NUMERIC[0], np.sin(angle), np.cos(angle)], 1), atol=1e-6)


def test_wide_part_is_silent_before_training():
    model = small(numeric=0, sequences={})
    assert not np.any(np.asarray(model.get_layer("wide").table))


def test_the_wide_part_adds_its_rows_to_the_logits():
    model = small(numeric=0, sequences={})
    before = np.asarray(model({"categories": CATEGORIES}))
    model.get_layer("wide").table.assign(np.arange(7.0)[:, None])
    added = np.asarray(model({"categories": CATEGORIES})) - before
    np.testing.assert_allclose(added, [[0 + 6], [2 + 3]], atol=1e-5)
