"""A step whose loss or gradient is not finite changes nothing on any replica; the next one goes on."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.training.engine import step as step_lib
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.step import inner_loop, train_step
from pipeline.training.loop.outer import InnerLoop
from pipeline.training.tasks.classification import Regression

BATCH, STEPS, BAD = 4, 6, 3
X = np.random.default_rng(0).normal(size=(BATCH * STEPS, 3)).astype("float32")
Y = X.sum(axis=1)


def poisoned(row: int) -> np.ndarray:
    """The inputs with a NaN in a row of step BAD."""
    spoiled = X.copy()
    spoiled[BAD * BATCH + row] = np.nan
    return spoiled


@tf.custom_gradient
def infinite_at_zero(values: tf.Tensor) -> tuple:
    """The values themselves; the gradient is infinite where a value is 0."""
    return values, lambda upstream: tf.where(values == 0, np.inf, upstream)


class InfiniteAtZero(keras.layers.Layer):
    def call(self, values: tf.Tensor) -> tf.Tensor:
        return infinite_at_zero(values)


def make(
    name: str,
    x: np.ndarray,
    *,
    skips: bool = True,
    last: keras.layers.Layer | None = None,
    scaled: bool = False,
    micro_batches: int = 1,
) -> tuple[keras.Model, InnerLoop]:
    strategy = strategy_lib.create(name)
    keras.utils.set_random_seed(0)
    with strategy.scope():
        inputs = keras.Input((3,))
        hidden = keras.layers.BatchNormalization()(keras.layers.Dense(4)(inputs))
        outputs = keras.layers.Dense(1)(hidden)
        model = keras.Model(inputs, last(outputs) if last else outputs)
        strategy_lib.adapt_to_replicas(model, replicas=strategy.num_replicas_in_sync)
        plain = keras.optimizers.AdamW(0.1, weight_decay=0.1)
        model.optimizer = keras.optimizers.LossScaleOptimizer(plain) if scaled else plain
        model.optimizer.build(model.trainable_variables)
        kept = step_lib.build_averages(0.5, model)
        model.averages = kept.variables
    step = train_step(
        model,
        model.optimizer,
        task=Regression(),
        global_batch=BATCH,
        skips=skips,
        averages=kept,
        micro_batches=micro_batches,
    )

    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        each = context.get_per_replica_batch_size(BATCH)
        return tf.data.Dataset.from_tensor_slices((x, np.resize(Y, len(x)))).batch(each, drop_remainder=True)

    return model, inner_loop(strategy, step, iter(strategy.distribute_datasets_from_function(batches)))


def state(model: keras.Model) -> list[np.ndarray]:
    return [np.asarray(each) for each in (*model.variables, *model.optimizer.variables, *model.averages)]


@pytest.mark.parametrize(
    ("name", "micro_batches", "scaled"),
    [("one_device", 1, True), ("one_device", 4, False), ("mirrored", 1, False), ("mirrored", 2, True)],
)
def test_a_bad_step_leaves_no_trace(name, micro_batches, scaled):
    # The NaN is in the last replica's half of the batch, and in the last part of it.
    model, loop = make(name, poisoned(row=BATCH - 1), scaled=scaled, micro_batches=micro_batches)
    assert loop(BAD).bad == ()
    before = state(model)
    tally = loop(1)
    assert (tally.bad, tally.loss, tally.hits) == ((BAD,), 0.0, 0.0)
    for value, was in zip(state(model), before, strict=True):
        np.testing.assert_array_equal(value, was)
    assert loop(2).bad == ()
    assert all(np.isfinite(value).all() for value in state(model))
    assert int(np.asarray(model.optimizer.iterations)) == STEPS - 1


def test_many_steps_at_once_name_the_bad_ones_among_them():
    x = poisoned(row=0)
    x[0] = np.inf
    together, loop = make("one_device", x)
    assert loop(STEPS).bad == (0, BAD)
    apart, loop = make("one_device", x)
    for _ in range(STEPS):
        loop(1)
    for one, other in zip(state(together), state(apart), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_gradient_that_is_not_finite_is_bad_though_the_loss_is_finite():
    zeros = keras.layers.Dense(1, kernel_initializer="zeros", bias_initializer="zeros")
    last = keras.Sequential([zeros, InfiniteAtZero()])
    model, loop = make("mirrored", X, last=last)
    before = state(model)
    assert loop(1).bad == (0,)
    for value, was in zip(state(model), before, strict=True):
        np.testing.assert_array_equal(value, was)


@pytest.mark.parametrize(("name", "skips"), [("one_device", False), ("mirrored", True)])
def test_float16_leaves_out_no_more_steps_than_a_scale_can_cause(name, skips):
    zeros = keras.layers.Dense(1, kernel_initializer="zeros", bias_initializer="zeros")
    last = keras.Sequential([zeros, InfiniteAtZero()])
    _, loop = make(name, np.concatenate([X] * 6), last=last, scaled=True, skips=skips)
    # Each step halves the scale, from 2¹⁵ on; that of step 29 is below 2⁻¹⁴ when it is done.
    assert loop(32).bad == (29, 30, 31)


def test_without_a_bad_step_the_weights_are_those_of_the_plain_update():
    (plain, loop), (skipping, other) = make("mirrored", X, skips=False), make("mirrored", X)
    assert (loop(STEPS).bad, other(STEPS).bad) == ((), ())
    for one, another in zip(state(plain), state(skipping), strict=True):
        np.testing.assert_array_equal(one, another)


def test_a_step_that_is_not_skipped_is_named_and_its_loss_told():
    _, loop = make("mirrored", poisoned(row=1), skips=False)
    tally = loop(BAD + 1)
    assert tally.bad == (BAD,)
    assert np.isnan(tally.loss)
