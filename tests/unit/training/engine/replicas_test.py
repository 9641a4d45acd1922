"""Layers and sums on two replicas, beside NumPy over the whole batch and TensorFlow's own sums."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import op_selector

from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.replicas import adapt_to_replicas, sum_over_replicas

X = np.random.default_rng(0).normal(2.0, 3.0, size=(16, 4)).astype("float32")
X[8:] += 5.0  # the second replica's half is another one


def outputs_of(name: str, layer, x: np.ndarray, *, calls: int = 1) -> tuple[keras.Model, list[np.ndarray]]:
    """The model of one layer, and its last outputs in training, replica by replica."""
    strategy = strategy_lib.create(name)
    count = strategy.num_replicas_in_sync
    with strategy.scope():
        inputs = keras.Input(x.shape[1:])
        model = keras.Model([inputs], layer()(inputs))
        adapt_to_replicas(model, replicas=count)
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
        adapt_to_replicas(model, replicas=count)
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


def test_what_a_mask_leaves_out_counts_on_no_replica():
    rows = np.where(np.arange(16)[:, None, None] % 3 == np.arange(5)[:, None] % 3, 0.0, X[:, None, :] + 1.0)
    kept = rows[np.any(rows != 0.0, axis=-1)]  # (elements, channels)

    def make() -> keras.Layer:
        return keras.Sequential([keras.layers.Masking(), keras.layers.BatchNormalization(momentum=0.0)])

    model, _ = outputs_of("mirrored", make, rows.astype("float32"))
    (layer,) = (each for each in model._flatten_layers() if hasattr(each, "moving_mean"))
    np.testing.assert_allclose(np.asarray(layer.moving_mean), kept.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(layer.moving_variance), kept.var(axis=0), rtol=1e-4)


def test_the_variance_of_values_far_from_zero_is_that_of_one_device():
    """In float32 the mean of the squares less the square of the mean would be 0 to 0.06 here."""
    rows = (1000.0 + 0.1 * X).astype("float32")
    model, _ = outputs_of("mirrored", lambda: keras.layers.BatchNormalization(momentum=0.0), rows)
    (layer,) = (each for each in model._flatten_layers() if hasattr(each, "moving_mean"))
    expected = rows.astype("float64").var(axis=0)
    np.testing.assert_allclose(np.asarray(layer.moving_variance), expected, rtol=1e-2)


def deep(depth: int) -> keras.Model:
    """Blocks of a layer and its normalisation, with weights that are always the same."""
    inputs = values = keras.Input((4,))
    for number in range(depth):
        start = keras.initializers.GlorotUniform(seed=number)
        values = keras.layers.Dense(4, kernel_initializer=start)(values)
        values = keras.layers.Activation("gelu")(keras.layers.BatchNormalization()(values))
    return keras.Model([inputs], values)


def loss_and_gradients(depth: int, adapt) -> list[np.ndarray]:
    """Of two replicas together, whose model `adapt` has made fit."""
    strategy = strategy_lib.create("mirrored")
    with strategy.scope():
        model = deep(depth)
        adapt(model)
    parts = np.split(X, 2)
    shared = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group])
    )

    def step(part: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.abs(model(part, training=True) - 0.5))
        return [loss, *tape.gradient(loss, [each.value for each in model.trainable_variables])]

    def both(part: tf.distribute.DistributedValues) -> list[tf.Tensor]:
        return [strategy.reduce("SUM", each, axis=None) for each in strategy.run(step, args=(part,))]

    return [each.numpy() for each in tf.function(both, autograph=False)(shared)]


def synchronise(model: keras.Model) -> None:
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = True


def test_losses_and_gradients_are_those_of_keras_synchronised():
    ours = loss_and_gradients(3, lambda model: adapt_to_replicas(model, replicas=2))
    for own, theirs in zip(ours, loss_and_gradients(3, synchronise), strict=True):
        np.testing.assert_allclose(own, theirs, rtol=1e-4, atol=1e-5)


def test_a_sum_looks_for_variables_in_no_other_replica(monkeypatch):
    """Keras's own looks through 10 times as many operations at depth 8, and 40 times as many at 32."""
    walk, walked = op_selector.get_backward_walk_ops, []

    def counted(*args, **kwargs) -> list[tf.Operation]:
        walked.append(walk(*args, **kwargs))
        return walked[-1]

    monkeypatch.setattr(op_selector, "get_backward_walk_ops", counted)
    loss_and_gradients(8, lambda model: adapt_to_replicas(model, replicas=2))
    sums = 2 * 2 * 2 * 8  # of mean and variance, both replicas, forwards and backwards
    assert len(walked) == sums and max(map(len, walked)) < 20


def test_a_sum_over_replicas_has_a_second_derivative():
    """s is Σx: the squares of both add up to 2s², of which 4s is the gradient; that of both 4s again is 8."""
    strategy = strategy_lib.create("mirrored")

    def second() -> tf.Tensor:
        x = tf.constant(3.0)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                square = sum_over_replicas(x) ** 2
            first = inner.gradient(square, x)
        return tf.stack([first, outer.gradient(first, x)])

    found = strategy.experimental_local_results(tf.function(lambda: strategy.run(second))())
    np.testing.assert_array_equal(np.stack(found), [[24.0, 8.0]] * 2)
