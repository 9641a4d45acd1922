"""Adam in one kernel, beside Keras's and beside the formula in NumPy."""

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.experiment import optimizer as optimizer_lib

START = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
TOLERANCE = 5e-6  # of 50 updates, whose sum is 0.1
GRADIENTS = np.random.default_rng(0).normal(size=(50, 4, 3)).astype(np.float32)


def trained(
    make: Callable[[float], keras.optimizers.Optimizer], *, strategy: str = "one_device", scaled: bool = False
) -> keras.Variable:
    """The variable after 50 steps of given gradients, summed over replicas before, as `Update` does."""
    of_replicas = strategy_lib.create(strategy)
    with of_replicas.scope():
        variable = keras.Variable(START, name="kernel")
        optimizer = make(0.01)
        optimizer._all_reduce_sum_gradients = list
        if scaled:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0)
        optimizer.build([variable])

    @tf.function
    def step(gradient: tf.Tensor) -> None:
        summed = gradient * (2.0 if scaled else 1.0)
        of_replicas.run(lambda: optimizer.apply([summed], [variable]))

    for gradient in GRADIENTS:
        step(tf.constant(gradient))
    return variable


@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_the_same_weights_as_keras(name, strategy):
    ours, of_keras = (
        np.asarray(trained(getattr(module, name), strategy=strategy).value)
        for module in (optimizer_lib, keras.optimizers)
    )
    assert np.abs(ours - START).max() > 0.05
    np.testing.assert_allclose(ours, of_keras, rtol=0, atol=TOLERANCE)


def test_the_same_weights_as_the_formula():
    weights, first, second = START.astype(np.float64), np.zeros((4, 3)), np.zeros((4, 3))
    for step, gradient in enumerate(GRADIENTS.astype(np.float64), 1):
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        alpha = 0.01 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        weights -= alpha * first / (np.sqrt(second) + 1e-7)
    np.testing.assert_allclose(np.asarray(trained(optimizer_lib.Adam).value), weights, rtol=0, atol=TOLERANCE)


def test_under_a_loss_scale():
    np.testing.assert_allclose(
        np.asarray(trained(optimizer_lib.Adam, scaled=True).value),
        np.asarray(trained(optimizer_lib.Adam).value),
        rtol=0,
        atol=1e-6,
    )


def test_variables_are_called_as_those_of_keras():
    names = []
    for module in (optimizer_lib, keras.optimizers):
        keras.utils.clear_session(free_memory=False)
        optimizer = module.AdamW()
        optimizer.build([keras.Variable(START, name="kernel")])
        names.append([variable.path for variable in optimizer.variables])
    assert names[0] == names[1]


@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
def test_clips_by_the_global_norm_as_the_formula(strategy):
    norms = np.sqrt((GRADIENTS.astype(np.float64) ** 2).sum((1, 2)))
    limit = float(np.median(norms))  # half of the steps are clipped
    weights, first, second = START.astype(np.float64), np.zeros((4, 3)), np.zeros((4, 3))
    for step, (gradient, norm) in enumerate(zip(GRADIENTS.astype(np.float64), norms, strict=True), 1):
        clipped = gradient * min(1.0, limit / norm)
        first, second = 0.9 * first + 0.1 * clipped, 0.999 * second + 0.001 * clipped**2
        alpha = 0.01 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        weights -= alpha * first / (np.sqrt(second) + 1e-7)

    found = trained(lambda rate: optimizer_lib.Adam(rate, global_clipnorm=limit), strategy=strategy)
    np.testing.assert_allclose(np.asarray(found.value), weights, rtol=0, atol=TOLERANCE)
    unclipped = trained(optimizer_lib.Adam, strategy=strategy)
    assert np.abs(np.asarray(unclipped.value) - weights).max() > 100 * TOLERANCE


def test_a_gradient_that_is_no_number_is_not_clipped_away():
    clipped = optimizer_lib.Adam(0.01, global_clipnorm=1.0)._clip_gradients(
        [tf.constant([1.0, 2.0]), tf.constant([float("nan")])]
    )
    assert all(np.isnan(each).all() for each in clipped)
