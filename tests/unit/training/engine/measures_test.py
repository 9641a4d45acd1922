"""What is measured of a step: the accelerator's peak, and the operations of a forward pass."""

import keras
import pytest
import tensorflow as tf

from pipeline.base.accelerators import ACCELERATORS, of_device
from pipeline.training.engine.measures import accelerator_of, forward_flops

# A peak is found by the name that a driver gives; what is not in the table has none.


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA A100 80GB PCIe", 312),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA H200", 989),
        ("NVIDIA L4", 121),
        ("Tesla T4", 65),
        ("Tesla V100-SXM2-16GB", 125),
        ("Tesla V100-PCIE-32GB", 112),
        ("v4-8", 275),
        ("v5litepod-8", 197),
        ("v5p-16", 459),
        ("v6e-4", 918),
    ],
)
def test_known_names(name, teraflops):
    assert of_device(name).teraflops == teraflops


@pytest.mark.parametrize("name", ["CPU", "TPU", "NVIDIA L40S", "NVIDIA T400", "NVIDIA GeForce RTX 4090", ""])
def test_others_have_none(name):
    assert of_device(name) is None


def test_each_peak_has_a_dated_source():
    assert all(peak.source[-4:].isdigit() for peak in ACCELERATORS)


def test_this_machine_is_named():
    named = accelerator_of(tf.distribute.get_strategy())
    assert named == "CPU" or tf.config.list_physical_devices("GPU")


# Operations are those that a hand computes from the layers' sizes.

layers = keras.layers


def model_of(shape: tuple, *several: keras.layers.Layer, dtype: str = "float32") -> keras.Model:
    inputs = x = keras.Input(shape, dtype=dtype)
    for layer in several:
        x = layer(x)
    return keras.Model(inputs, x)


@pytest.mark.parametrize(
    ("model", "flops"),
    [
        (model_of((3,), layers.Dense(5, "relu"), layers.Dense(7)), 2 * 3 * 5 + 2 * 5 * 7),
        (model_of((11, 3), layers.Dense(5)), 11 * 2 * 3 * 5),
        (model_of((8, 8, 3), layers.Conv2D(16, 3, padding="same")), 8 * 8 * 16 * 2 * (3 * 3 * 3)),
        (model_of((8, 8, 3), layers.Conv2D(16, 3, strides=2)), 3 * 3 * 16 * 2 * (3 * 3 * 3)),
        (model_of((8, 8, 4), layers.Conv2D(16, 3, groups=2)), 6 * 6 * 16 * 2 * (3 * 3 * 2)),
        (model_of((8, 8, 3), layers.DepthwiseConv2D(3, padding="same")), 8 * 8 * 3 * 2 * (3 * 3)),
        (model_of((8, 8, 3), layers.Conv2DTranspose(4, 3, 2, padding="same")), 8 * 8 * 3 * 2 * (3 * 3 * 4)),
        (model_of((9, 3), layers.Conv1DTranspose(4, 3, padding="same")), 9 * 3 * 2 * (3 * 4)),
        (model_of((4, 4, 4, 2), layers.Conv3DTranspose(3, 3, padding="same")), 64 * 2 * 2 * (27 * 3)),
        (model_of((5, 3), layers.EinsumDense("...x,xy->...y", (7,))), 5 * 2 * 3 * 7),
        (model_of((5, 3), layers.EinsumDense("ax...,xy->ay...", (7, 3))), 3 * 2 * 5 * 7),
        (model_of((9,), layers.Embedding(100, 4), dtype="int32"), 0),
        (
            model_of((9,), layers.Embedding(100, 4), layers.Flatten(), layers.Dense(2), dtype="int32"),
            2 * 36 * 2,
        ),
        (model_of((8, 8, 3), layers.BatchNormalization(), layers.ReLU()), 0),
    ],
)
def test_a_hand_computes_the_same(model, flops):
    assert forward_flops(model) == flops


def test_attention():
    """Query, key, value and output of 2 heads of 4; two products of [5, 5] a head."""
    inputs = keras.Input((5, 16))
    model = keras.Model(inputs, layers.MultiHeadAttention(num_heads=2, key_dim=4)(inputs, inputs))
    projections, products = 4 * (5 * 2 * 16 * 8), 2 * (2 * 2 * 5 * 5 * 4)
    assert forward_flops(model) == projections + products


def test_a_graph_within_the_graph_counts():
    assert forward_flops(model_of((3,), layers.Dense(5), model_of((5,), layers.Dense(7)))) == 2 * (15 + 35)


def test_models_of_several_inputs():
    inputs = {name: keras.Input((size,), name=name) for name, size in (("a", 3), ("b", 4))}
    both = layers.Dense(2)(layers.Concatenate()([inputs["a"], inputs["b"]]))
    assert forward_flops(keras.Model(inputs, both)) == 2 * 7 * 2


def test_a_loop_hides_how_often_it_runs():
    assert forward_flops(model_of((9, 4), layers.LSTM(3))) is None


class Positive(layers.Layer):
    """Keeps the examples whose first number is positive."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.boolean_mask(x, x[:, 0] > 0)


def test_a_size_that_depends_on_data_is_not_known():
    assert forward_flops(model_of((4,), Positive(), layers.Dense(3))) is None
