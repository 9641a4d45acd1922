"""The inner loop: many steps in one graph, with sums over steps and replicas."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.training import request
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.inner import inner_loop, train_step
from pipeline.training.loop.outer import InnerLoop
from pipeline.training.tasks.classification import Binary

X = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
Y = (X.sum(axis=1) > 0).astype("int32")
GLOBAL_BATCH = 8
WITHOUT_XLA = "tensorflow-tpu" in request.versions(("tensorflow-tpu",))


def make(strategy: tf.distribute.Strategy, **settings) -> tuple[keras.Model, InnerLoop]:
    with strategy.scope():
        inputs = keras.Input((3,), name="numeric")
        model = keras.Model([inputs], keras.layers.Dense(1, kernel_initializer="ones")(inputs))
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
    step = train_step(model, optimizer, task=Binary(), global_batch=GLOBAL_BATCH, **settings)

    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        examples = tf.data.Dataset.from_tensor_slices(({"numeric": X}, Y)).repeat()
        return examples.batch(context.get_per_replica_batch_size(GLOBAL_BATCH), drop_remainder=True)

    return model, inner_loop(strategy, step, iter(strategy.distribute_datasets_from_function(batches)))


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_sums_over_steps_and_replicas(name):
    _, loop = make(strategy_lib.create(name))
    tally = loop(1)
    assert tally.steps == 1
    assert tally.hits == GLOBAL_BATCH  # the model is right from the start
    margins = np.abs(X[:GLOBAL_BATCH].sum(axis=1))
    assert tally.loss == pytest.approx(np.log1p(np.exp(-margins)).sum(), rel=1e-5)


def test_two_replicas_take_the_step_that_one_takes():
    weights = []
    for name in ("one_device", "mirrored"):
        model, loop = make(strategy_lib.create(name))
        loop(7)
        weights.append(np.asarray(model.weights[0]))
    np.testing.assert_allclose(*weights, rtol=1e-6)


def test_many_steps_at_once_equal_one_by_one():
    together, loop = make(strategy_lib.create("one_device"))
    loop(6)
    apart, loop = make(strategy_lib.create("one_device"))
    for _ in range(6):
        loop(1)
    np.testing.assert_array_equal(np.asarray(together.weights[0]), np.asarray(apart.weights[0]))


@pytest.mark.skipif(WITHOUT_XLA, reason="tensorflow-tpu has XLA for TPUs only")
def test_compiled_step_learns_the_same():
    plain, loop = make(strategy_lib.create("one_device"))
    loop(3)
    compiled, loop = make(strategy_lib.create("one_device"), jit_compile=True)
    loop(3)
    np.testing.assert_allclose(np.asarray(plain.weights[0]), np.asarray(compiled.weights[0]), rtol=1e-5)


def test_waiting_is_part_of_the_time():
    _, loop = make(strategy_lib.create("one_device"))
    tally = loop(20)
    assert 0 < tally.input_wait_s <= tally.seconds


def test_time_is_read_from_the_clock_that_was_passed():
    strategy = strategy_lib.create("one_device")
    dataset = tf.data.Dataset.from_tensors(({"numeric": X}, Y)).repeat()
    iterator = iter(strategy.distribute_datasets_from_function(lambda context: dataset))
    ticks = iter([10.0, 12.5])
    loop = inner_loop(strategy, lambda inputs, labels: tf.zeros([2]), iterator, clock=lambda: next(ticks))
    assert loop(4).seconds == 2.5
