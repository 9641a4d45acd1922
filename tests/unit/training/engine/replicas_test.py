"""Layers on two replicas, beside NumPy over the whole batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.training.engine import strategy as strategy_lib

X = np.random.default_rng(0).normal(2.0, 3.0, size=(16, 4)).astype("float32")
X[8:] += 5.0  # the second replica's half is another one


def outputs_of(name: str, layer, x: np.ndarray, *, calls: int = 1) -> tuple[keras.Model, list[np.ndarray]]:
    """The model of one layer, and its last outputs in training, replica by replica."""
    strategy = strategy_lib.create(name)
    count = strategy.num_replicas_in_sync
    with strategy.scope():
        inputs = keras.Input(x.shape[1:])
        model = keras.Model([inputs], layer()(inputs))
        strategy_lib.adapt_to_replicas(model, replicas=count)
    parts = np.split(x, count)
    shared = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group])
    )
    run = tf.function(lambda x: strategy.run(lambda part: model(part, training=True), args=(x,)))
    for _ in range(calls):
        found = strategy.experimental_local_results(run(shared))
    return model, [each.numpy() for each in found]


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_statistics_are_of_the_whole_batch(name):
    model, _ = outputs_of(name, lambda: keras.layers.BatchNormalization(momentum=0.5), X)
    layer = model.layers[1]
    np.testing.assert_allclose(np.asarray(layer.moving_mean), 0.5 * X.mean(axis=0), rtol=1e-5)
    expected = 0.5 + 0.5 * X.astype("float64").var(axis=0)
    np.testing.assert_allclose(np.asarray(layer.moving_variance), expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_outputs_are_normalised_by_the_whole_batch(name):
    _, parts = outputs_of(name, lambda: keras.layers.BatchNormalization(epsilon=0.0), X)
    expected = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-3, atol=1e-4)


def test_each_replica_drops_units_of_its_own():
    ones = np.ones((2, 256), "float32")
    _, (first, second) = outputs_of("mirrored", lambda: keras.layers.Dropout(0.5, seed=1), ones)
    assert np.mean(first == second) == pytest.approx(0.5, abs=0.15)  # as often as by chance


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras.layers.GaussianNoise(1.0, seed=1),
        lambda: keras.layers.GaussianDropout(0.5, seed=1),
        lambda: keras.layers.SpatialDropout1D(0.5, seed=1),
    ],
)
def test_each_replica_has_noise_of_its_own(layer):
    ones = np.ones((2, 4, 64), "float32")
    _, (first, second) = outputs_of("mirrored", layer, ones)
    assert np.mean(first != second) > 0.2


def test_the_first_replica_drops_what_one_replica_drops():
    ones = np.ones((2, 64), "float32")
    _, (alone,) = outputs_of("one_device", lambda: keras.layers.Dropout(0.5, seed=1), ones[:1])
    _, (first, _) = outputs_of("mirrored", lambda: keras.layers.Dropout(0.5, seed=1), ones)
    np.testing.assert_array_equal(alone, first)


def test_masks_change_from_step_to_step():
    ones = np.ones((2, 64), "float32")
    once = outputs_of("mirrored", lambda: keras.layers.Dropout(0.5, seed=1), ones)[1]
    twice = outputs_of("mirrored", lambda: keras.layers.Dropout(0.5, seed=1), ones, calls=2)[1]
    assert all(np.any(a != b) for a, b in zip(once, twice, strict=True))


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_losses_of_outputs_before_shared_statistics_are_those_of_the_replica(name):
    """At a BatchNormalization each replica waits for the others."""
    strategy = strategy_lib.create(name)
    count = strategy.num_replicas_in_sync
    with strategy.scope():
        inputs = keras.Input((4,))
        kept = keras.layers.ActivityRegularization(l2=0.5)(inputs)
        model = keras.Model([inputs], keras.layers.BatchNormalization()(kept))
        strategy_lib.adapt_to_replicas(model, replicas=count)
    parts = np.split(X, count)
    shared = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group])
    )

    def losses(part: tf.Tensor) -> list[tf.Tensor]:
        model(part, training=True)
        return list(model.losses)

    (found,) = tf.function(lambda x: strategy.run(losses, args=(x,)))(shared)
    # Keras adds the mean over the examples of a call.
    expected = [0.5 * (part**2).sum() / len(part) for part in parts]
    each = [value.numpy() for value in strategy.experimental_local_results(found)]
    np.testing.assert_allclose(each, expected, rtol=1e-5)
