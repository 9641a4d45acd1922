"""Averages take the place of the weights, and give it back."""

import keras
import numpy as np
import pytest

from pipeline.training.engine import step


def line(weight: float) -> keras.Model:
    x = keras.Input((1,))
    start = keras.initializers.Constant(weight)
    return keras.Model([x], keras.layers.Dense(1, use_bias=False, kernel_initializer=start)(x))


def value(variable: keras.Variable) -> float:
    return np.asarray(variable).item()


def test_they_are_in_place_for_a_while():
    model = line(1.0)
    found = step.build_averages(0.9, model)
    model.weights[0].assign([[3.0]])
    with found.in_place():
        assert value(model.weights[0]) == 1.0
    assert (value(model.weights[0]), value(found.variables[0])) == (3.0, 1.0)


def test_what_a_callback_puts_in_their_place_they_become():
    model = line(1.0)
    found = step.build_averages(0.9, model)
    with found.in_place():
        model.weights[0].assign([[7.0]])
    assert (value(model.weights[0]), value(found.variables[0])) == (1.0, 7.0)


def test_after_an_error_the_weights_are_back():
    model = line(1.0)
    found = step.build_averages(0.9, model)
    model.weights[0].assign([[3.0]])
    with pytest.raises(ZeroDivisionError), found.in_place():
        1 / 0  # noqa: B018
    assert value(model.weights[0]) == 3.0


def test_statistics_of_batches_are_no_weights():
    x = keras.Input((2,))
    model = keras.Model([x], keras.layers.BatchNormalization()(x))
    assert len(step.build_averages(0.9, model).variables) == 2  # gamma and beta


def test_a_decay_of_0_keeps_none():
    assert step.build_averages(0.0, line(1.0)) is None
