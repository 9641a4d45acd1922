"""The vision transformer's parameters, positions, precision of its attention, and what it refuses."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.vit import sines, vit

IMAGES = {"image": np.random.default_rng(0).integers(0, 256, (2, 8, 12, 3)).astype("uint8")}
PHOTOGRAPHS = {"image_shape": (224, 224, 3), "image_rescaling": (1 / 127.5, -1.0), "outputs": 1000}


def small(**options) -> keras.Model:
    sizes = {"patch": 4, "width": 8, "depth": 1, "heads": 2, "expansion": 2} | options
    return vit(image_shape=(8, 12, 3), image_rescaling=(1 / 127.5, -1.0), outputs=3, **sizes)


def trained_numbers(model: keras.Model) -> int:
    return sum(math.prod(each.shape) for each in model.trainable_variables)


@pytest.mark.parametrize(
    ("width", "heads", "published"),
    [(192, 3, 5_717_416), pytest.param(384, 6, 22_050_664, marks=pytest.mark.slow)],
)
def test_has_the_parameters_of_the_paper(width, heads, published):
    """DeiT-Ti and DeiT-S (Touvron et al. 2021; timm counts 5,717,416 and 22,050,664) have a class token and
    learned positions of it and of 196 patches besides.
    """
    model = vit(**PHOTOGRAPHS, width=width, heads=heads)
    assert trained_numbers(model) == published - width - 197 * width


def test_attention_pooling_adds_its_query_attention_and_perceptron():
    query, attention, norm, perceptron = 8, 4 * (8 * 8 + 8), 2 * 8, (8 * 16 + 16) + (16 * 8 + 8)
    more = trained_numbers(small(pool="attention")) - trained_numbers(small())
    assert more == query + attention + norm + perceptron


def test_positions_are_those_of_the_authors_code():
    """posemb_sincos_2d of big_vision, patch by patch."""
    rows, columns, width = 3, 2, 16
    for y in range(rows):
        for x in range(columns):
            omega = [1 / 10_000 ** (k / (width // 4 - 1)) for k in range(width // 4)]
            expected = [f(at * each) for at in (x, y) for f in (math.sin, math.cos) for each in omega]
            np.testing.assert_allclose(sines(rows, columns, width)[y, x], expected, atol=1e-6)


def test_a_patch_that_moves_changes_the_answer():
    model = small()
    head = model.get_layer("logits")
    head.kernel.assign(np.random.default_rng(0).normal(size=head.kernel.shape))
    turned = {"image": np.concatenate([IMAGES["image"][:, :, 4:], IMAGES["image"][:, :, :4]], axis=2)}
    assert np.abs(np.asarray(model(turned)) - np.asarray(model(IMAGES))).max() > 1e-3
    model.get_layer("positions")._grid *= 0.0  # what is left is the mean over a set of patches
    np.testing.assert_allclose(model(turned), model(IMAGES), atol=1e-5)


@pytest.mark.parametrize("pool", ["average", "attention"])
def test_the_softmax_of_attention_is_float32_under_a_policy_of_halves(pool):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        graph = tf.function(small(pool=pool)).get_concrete_function(
            {"image": tf.TensorSpec((2, 8, 12, 3), "uint8")}
        )
    finally:
        keras.config.set_dtype_policy("float32")
    operations = [each for f in (graph.graph, *graph.graph._functions.values()) for each in _operations(f)]
    softmaxes = [each for each in operations if each.type == "Softmax"]
    assert {each.outputs[0].dtype for each in softmaxes} == {tf.float32}
    assert any(each.outputs[0].dtype == tf.bfloat16 for each in operations if each.type == "MatMul")


def _operations(graph: object) -> list:
    return graph.get_operations() if hasattr(graph, "get_operations") else []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"patch": 8}, r"one of \[1, 2, 4\]; received 8"),
        ({"patch": 0}, r"received 0"),
        ({"heads": 3}, "width must be a multiple of 4 and of heads; received 8 and 3 heads"),
        ({"width": 6}, "received 6 and 2 heads"),
        ({"pool": "max"}, "pool must be one of average, attention; received 'max'"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options, expected):
    with pytest.raises(ValueError, match=expected):
        small(**options)


def test_dropout_is_of_training_alone():
    model = small(dropout=0.5)
    model.get_layer("logits").kernel.assign(np.ones((8, 3)))
    np.testing.assert_array_equal(model(IMAGES), model(IMAGES, training=False))
    assert np.any(np.asarray(model(IMAGES, training=True)) != np.asarray(model(IMAGES)))
