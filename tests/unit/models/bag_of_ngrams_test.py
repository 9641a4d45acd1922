"""The linear model of texts: each different id of a kind counts once, and 1 / √n of n."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.bag_of_ngrams import Bag, bag_of_ngrams
from models.features import of_words

IDS = np.array([[3, 1, 3, 0, 7, 7, 0], [2, 0, 0, 0, 0, 0, 0], [0] * 7], "int32")  # 4 of words, 3 of runs
PARTS = (4, 3)


def small(**changes) -> keras.Model:
    sizes = {"numeric": 0, "cardinalities": (), "sequences": {"review": (7, 9)}, "parts": {"review": PARTS}}
    return bag_of_ngrams(**({"outputs": 2, **sizes} | changes))


def in_numpy(weights: np.ndarray, bias: np.ndarray, parts: tuple[int, ...]) -> np.ndarray:
    logits = np.tile(bias, (len(IDS), 1))
    for row, ids in enumerate(IDS):
        for part in np.split(ids, np.cumsum(parts)[:-1]):
            different = sorted({*part.tolist()} - {0})
            if different:
                logits[row] += weights[different].sum(axis=0) / np.sqrt(len(different))
    return logits


@pytest.mark.parametrize("parts", [PARTS, (7,)])
def test_logits_against_numpy(parts):
    model, draw = small(parts={"review": parts}), np.random.default_rng(0)
    weights, bias = draw.normal(size=(9, 2)).astype("float32"), np.array([0.5, -1.0], "float32")
    factors = draw.uniform(size=(9, 1)).astype("float32")
    model.get_layer("review_weights").table.assign(weights)
    model.get_layer("review_factors").table.assign(factors)
    model.get_layer("logits").bias.assign(bias)
    np.testing.assert_allclose(model({"review": IDS}), in_numpy(weights * factors, bias, parts), rtol=1e-5)


def test_an_untrained_model_says_nothing_and_its_factors_are_1():
    model = small()
    assert not np.any(model({"review": IDS}))
    assert np.all(np.asarray(model.get_layer("review_factors").table) == 1.0)


def test_padding_learns_nothing():
    model = small(dropout=0.0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model({"review": IDS}, training=True))
    gradient = tf.convert_to_tensor(tape.gradient(loss, model.get_layer("review_weights").table.value))
    assert np.flatnonzero(gradient[:, 0]).tolist() == [1, 2, 3, 7]


def test_training_leaves_out_ids_and_keeps_their_expectation():
    keras.utils.set_random_seed(0)
    ids = np.tile(np.arange(1, 101, dtype="int32"), (50, 1))
    _, shares = Bag(0.7)(ids, training=True)
    np.testing.assert_allclose(np.unique(shares), [0.0, 0.1 / 0.3], rtol=1e-6)
    assert np.mean(np.asarray(shares) == 0.0) == pytest.approx(0.7, abs=0.02)


def test_other_models_take_words_alone_as_a_table_of_embeddings_has_rows_for_them():
    ids = np.array([[0, 1, 1 << 16, (1 << 16) + 1, 1 << 20, 5]], "int32")
    words, size = of_words(ids, 1 + (1 << 21), (5, 1))
    assert (np.asarray(words).tolist(), size) == ([[0, 1, 1 << 16, 1, 1 << 16]], 1 + (1 << 16))
    words, size = of_words(ids, 30, ())
    assert (words is ids, size) == (True, 30)


def test_something_to_predict_from_is_needed():
    with pytest.raises(ValueError, match="received none"):
        small(sequences={}, parts={})
