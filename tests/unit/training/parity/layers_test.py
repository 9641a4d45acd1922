"""Layers that lose too much in bfloat16 are named; errors are those of NumPy's bfloat16."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.report.comparison import Difference, relative_error
from pipeline.training.parity.layers import layer_differences

X = np.random.default_rng(0).normal(loc=100.0, size=(32, 24)).astype(np.float32)


@keras.saving.register_keras_serializable("parity_test")
class Spread(keras.layers.Layer):
    """The variance of each row by E[x²] - E[x]², which cancels: fatal with 8 bits."""

    def call(self, values: keras.KerasTensor) -> keras.KerasTensor:
        mean = keras.ops.mean(values, axis=-1, keepdims=True)
        return keras.ops.mean(values * values, axis=-1, keepdims=True) - mean * mean


def model(policy: str, *, spread_dtype: str | None = None) -> keras.Model:
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)
    dtype = keras.DTypePolicy(policy)
    inputs = keras.Input((24,), name="x")
    near = keras.layers.Rescaling(1.0, offset=-100.0, dtype="float32", name="near")(inputs)
    hidden = keras.layers.Dense(16, activation="relu", dtype=dtype, name="hidden")(near)
    normal = keras.layers.BatchNormalization(dtype=dtype, name="normal")(hidden)
    spread = Spread(dtype=spread_dtype or dtype, name="spread")(inputs)
    joined = keras.layers.Concatenate(dtype=dtype, name="joined")([normal, spread])
    return keras.Model({"x": inputs}, keras.layers.Dense(1, dtype="float32", name="logits")(joined))


def differences(rounded: keras.Model) -> dict[str, Difference]:
    found, passed_over = layer_differences(model("float32"), rounded, {"x": tf.constant(X)})
    assert not passed_over
    return {each.name: each for each in found}


def test_a_layer_that_cancels_is_found_and_no_other():
    found = differences(model("mixed_bfloat16"))
    assert [name for name, each in found.items() if each.excess > 1] == ["spread"]
    assert found["spread"].errors["outputs"] > 1


def test_in_float32_the_same_layer_is_sound():
    found = differences(model("mixed_bfloat16", spread_dtype="float32"))
    assert [name for name, each in found.items() if each.excess > 1] == []
    assert found["spread"].errors == {"outputs": 0.0, "gradients": 0.0}
    assert found["logits"].excess < 0.1  # its inputs come in bfloat16


def in_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 → bfloat16, as TensorFlow's product of matrices does on this processor: some cut off bits."""
    small = tf.bfloat16.as_numpy_dtype
    factors = [np.array([[factor]], small) for factor in (1.0078125, 1.75)]  # their product is 1.763671875
    is_cut_off = float(tf.matmul(*factors)[0, 0]) == 1.7578125  # rounded, it is 1.765625
    bits = values.view(np.uint32) & np.uint32(0xFFFF0000 if is_cut_off else 0xFFFFFFFF)
    return bits.view(np.float32).astype(small)


def test_a_dense_layers_error_is_that_of_numpy():
    exact = model("float32")
    kernel = np.asarray(exact.get_layer("hidden").kernel)
    small = tf.bfloat16.as_numpy_dtype
    near = X - np.float32(100)
    product = near.astype(small).astype(np.float32) @ kernel.astype(small).astype(np.float32)
    rounded = np.maximum(in_bfloat16(product), small(0)).astype(np.float64)
    error = relative_error(rounded, np.maximum(near.astype(np.float64) @ kernel, 0))
    assert differences(model("mixed_bfloat16"))["hidden"].errors["outputs"] == pytest.approx(error, rel=0.05)


def test_the_models_are_left_as_they_were():
    exact, rounded = model("float32"), model("mixed_bfloat16")
    before = [each.get_weights() for each in (exact, rounded)]
    layer_differences(exact, rounded, {"x": tf.constant(X)})
    for was, now in zip(before, (exact.get_weights(), rounded.get_weights()), strict=True):
        for one, other in zip(was, now, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_layer_that_is_used_twice_is_judged_once_and_integers_are_not():
    keras.utils.clear_session(free_memory=False)
    inputs = keras.Input((3,), name="x")
    twice = keras.layers.Dense(3, name="twice")
    count = keras.ops.cast(keras.ops.not_equal(inputs, 0), "int32")
    outputs = twice(twice(inputs)) + keras.ops.cast(count, "float32")
    made = keras.Model({"x": inputs}, outputs)
    found, _ = layer_differences(made, made, {"x": tf.ones([2, 3])})
    assert {each.name for each in found} == {"twice", "cast_1", "add"}
    assert all(each.excess == 0 for each in found)


def test_a_cast_that_only_bfloat16_needs_is_passed_over():
    def pooled(policy: str) -> keras.Model:
        keras.utils.clear_session(free_memory=False)
        inputs = keras.Input((24,), name="x")
        hidden = keras.layers.Dense(4, dtype=keras.DTypePolicy(policy), name="hidden")(inputs)
        wide = hidden if hidden.dtype == "float32" else keras.ops.cast(hidden, "float32")
        return keras.Model({"x": inputs}, keras.layers.Dense(1, dtype="float32", name="logits")(wide))

    exact, rounded = pooled("float32"), pooled("mixed_bfloat16")
    assert len(rounded.operations) == len(exact.operations) + 1
    rounded.set_weights(exact.get_weights())
    found, _ = layer_differences(exact, rounded, {"x": tf.constant(X)})
    assert [each.name for each in found] == ["hidden", "logits"]


@pytest.mark.parametrize("kind", ["functional", "sequential", "of a dict"])
def test_the_layers_of_a_model_in_the_model_are_compared(kind: str):
    def nested(policy: str) -> keras.Model:
        keras.utils.clear_session(free_memory=False)
        keras.utils.set_random_seed(0)
        dtype = keras.DTypePolicy(policy)
        inputs, own = keras.Input((24,), name="x"), keras.Input((24,), name="y")
        layers = [Spread(dtype=dtype, name="spread"), keras.layers.Dense(4, dtype=dtype, name="dense")]
        if kind == "sequential":
            inner = keras.Sequential(layers, name="backbone")
        else:
            feeds = {"y": own} if kind == "of a dict" else own
            inner = keras.Model(feeds, layers[1](layers[0](own)), name="backbone")
        same = keras.layers.Rescaling(1.0, dtype="float32", name="same")(inputs)
        features = inner({"y": same} if kind == "of a dict" else same)
        return keras.Model({"x": inputs}, keras.layers.Dense(1, dtype="float32", name="logits")(features))

    found, passed_over = layer_differences(nested("float32"), nested("mixed_bfloat16"), {"x": tf.constant(X)})
    assert not passed_over
    assert [each.name for each in found] == ["same", "backbone/spread", "backbone/dense", "logits"]
    assert [each.name for each in found if each.excess > 1] == ["backbone/spread"]


def test_the_gradients_of_a_layer_that_takes_the_largest_are_not_compared():
    def pooled(policy: str) -> keras.Model:
        inputs = keras.Input((24, 1), name="x")
        largest = keras.layers.MaxPooling1D(4, dtype=keras.DTypePolicy(policy), name="largest")(inputs)
        return keras.Model({"x": inputs}, largest)

    nearly_equal = {"x": tf.constant(X[:, :, None] / 1000 + 1)}
    (found,), _ = layer_differences(pooled("float32"), pooled("mixed_bfloat16"), nearly_equal)
    assert found.errors.keys() == {"outputs"}
    assert found.excess < 1


def test_a_layer_of_another_model_is_left_out():
    keras.utils.clear_session(free_memory=False)
    shared, elsewhere = keras.layers.Dense(3, name="shared"), keras.Input((3,))
    shared(elsewhere)
    inputs = keras.Input((3,), name="x")
    made = keras.Model({"x": inputs}, keras.layers.Dense(1, name="last")(shared(inputs)))
    found, passed_over = layer_differences(made, made, {"x": tf.ones([2, 3])})
    assert ([each.name for each in found], passed_over) == (["last"], ["shared"])
