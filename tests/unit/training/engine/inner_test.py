"""The inner loop: many steps in one graph, with sums over steps and replicas."""

import itertools
import threading
import time
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.training.engine import step as step_lib
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.batches import timed
from pipeline.training.engine.step import inner_loop, train_step
from pipeline.training.loop.clock import Tally
from pipeline.training.loop.outer import InnerLoop
from pipeline.training.run import request
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
    loop = inner_loop(strategy, lambda inputs, labels: tf.zeros([3]), iterator, clock=lambda: next(ticks))
    assert loop(4).seconds == 2.5


def timed_loop(dataset: tf.data.Dataset, products: int) -> Callable[[int], Tally]:
    """An inner loop whose step multiplies matrices so often."""
    strategy = strategy_lib.create("one_device")
    weights = tf.ones([256, 256]) / 256

    def step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        for _ in range(products):
            inputs = tf.matmul(inputs, weights)
        return tf.stack([tf.reduce_sum(inputs), tf.reduce_sum(labels), 0.0])

    return inner_loop(strategy, step, iter(strategy.distribute_datasets_from_function(lambda _: dataset)))


BATCH = (tf.ones([64, 256]), tf.ones([64]))


def body_of_loop(step, updated: tuple[keras.Variable, ...] = ()) -> dict:
    """Nodes, by name, of what the loop does for each step."""
    strategy = strategy_lib.create("one_device")
    dataset = tf.data.Dataset.from_tensors(BATCH).repeat()
    iterator = iter(strategy.distribute_datasets_from_function(lambda _: dataset))
    traced = step_lib._graph(strategy, step, iterator, updated, None, tf.timestamp).get_concrete_function(
        tf.TensorSpec([], tf.int32)
    )
    (body,) = (
        {node.name: node for node in function.node_def}
        for function in traced.graph.as_graph_def().library.function
        if {"If", "Timestamp"} <= {node.op for node in function.node_def}
    )
    return body


def test_a_batch_is_asked_for_while_the_step_computes():
    """So handing it over, some 100 µs, waits for no time that is read after the step."""
    body = body_of_loop(lambda *_: tf.zeros([3]))
    (fetch,) = (node for node in body.values() if node.op == "If")
    assert "Timestamp" not in {node.op for node in before(fetch, body)}


def test_a_wait_begins_when_all_weights_are_changed():
    """And not when the loss is known."""
    weight = keras.Variable(0.0)

    def step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        weight.assign_add(tf.reduce_sum(inputs))
        return tf.zeros([3])

    body = body_of_loop(step, (weight,))
    clocks = [node for node in body.values() if node.op == "Timestamp"]
    assert any("AssignVariableOp" in {each.op for each in before(clock, body)} for clock in clocks)


def before(node, nodes: dict) -> list:
    """Nodes of a function that must have been computed before this one."""
    names = (name.lstrip("^").split(":")[0] for name in node.input)
    found = [nodes[name] for name in names if name in nodes]
    return [*found, *(each for one in found for each in before(one, nodes))]


class Ticks:
    """A clock that counts how often it was read, so that only the order of events matters."""

    def __init__(self) -> None:
        self._numbers, self._seen = itertools.count(1), threading.Semaphore(0)
        self._told: list[Callable[[], None]] = []

    def read(self) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(self._next_of_loop, [], tf.float64), [])

    def of_input(self) -> tf.Tensor:
        """Read twice a batch: when it is asked for, and when it is made."""
        return tf.ensure_shape(tf.numpy_function(self._next_of_input, [], tf.float64), [])

    def see(self, reads: int) -> None:
        """Waits until the input has read the clock so many times more."""
        for _ in range(reads):
            assert self._seen.acquire(timeout=60)

    def on_next_read(self, told: Callable[[], None]) -> None:
        """Calls this once, after the loop has read the clock next."""
        self._told.append(told)

    def _next_of_loop(self) -> np.float64:
        now = self._next()
        while self._told:
            self._told.pop()()
        return now

    def _next(self) -> np.float64:
        return np.float64(next(self._numbers))

    def _next_of_input(self) -> np.float64:
        now = self._next()
        self._seen.release()
        return now


def loop_of(dataset: tf.data.Dataset, ticks: Ticks, during_step: Callable[[], None]) -> InnerLoop:
    strategy = strategy_lib.create("one_device")
    batches, making = timed(strategy, lambda _: dataset, timestamp=ticks.of_input)

    def called() -> np.float32:
        during_step()
        return np.float32(0.0)

    def step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.fill([3], tf.ensure_shape(tf.numpy_function(called, [], tf.float32), []))

    return inner_loop(strategy, step, iter(batches), making=making, timestamp=ticks.read)


def test_a_constant_batch_is_never_waited_for():
    """Each step lasts until the batch after the next one is made: input is never late."""
    ticks = Ticks()
    loop = loop_of(tf.data.Dataset.from_tensors(BATCH).repeat(), ticks, lambda: ticks.see(2))
    assert loop(1).input_wait_s > 0.0  # the pipeline starts when the first batch is asked for
    ticks.see(2)
    assert [loop(steps).input_wait_s for steps in (1, 5, 1)] == [0.0, 0.0, 0.0]


def test_a_slow_input_is_waited_for():
    def slow(inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        time.sleep(0.01)
        return inputs, labels

    def map_slow(inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, ...]:
        batch = tf.numpy_function(slow, [inputs, labels], [tf.float32, tf.float32])
        return tuple(tf.ensure_shape(part, whole.shape) for part, whole in zip(batch, BATCH, strict=True))

    tally = timed_loop(tf.data.Dataset.from_tensors(BATCH).repeat().map(map_slow), products=1)(10)
    assert tally.input_wait_s > 10 * 0.01 * 0.5  # the step computes meanwhile


def test_a_batch_that_is_made_when_it_is_wanted_is_waited_for():
    ticks, wanted = Ticks(), threading.Semaphore(0)

    def made(inputs: np.ndarray) -> np.ndarray:
        assert wanted.acquire(timeout=60)
        return inputs

    def when_wanted(inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.ensure_shape(tf.numpy_function(made, [inputs], tf.float32), inputs.shape), labels

    loop = loop_of(tf.data.Dataset.from_tensors(BATCH).repeat().map(when_wanted), ticks, lambda: None)
    for _ in range(3):
        ticks.on_next_read(wanted.release)  # the loop's first look at the clock is when it wants a batch
        assert loop(1).input_wait_s > 0.0
    wanted.release()  # the next batch is in the making


def test_each_step_is_timed():
    seconds = []
    strategy = strategy_lib.create("one_device")
    dataset = tf.data.Dataset.from_tensors(({"numeric": X}, Y)).repeat()
    iterator = iter(strategy.distribute_datasets_from_function(lambda context: dataset))
    loop = inner_loop(strategy, lambda inputs, labels: tf.zeros([3]), iterator, on_steps=seconds.append)
    tally = loop(5)
    assert seconds[0].shape == (5,)
    assert seconds[0].min() > 0
    assert seconds[0].sum() <= tally.seconds


def test_nothing_is_fetched_beyond_the_last_step():
    strategy = strategy_lib.create("one_device")
    three = tf.data.Dataset.from_tensors(({"numeric": X}, Y)).repeat(3)
    iterator = iter(strategy.distribute_datasets_from_function(lambda context: three))
    assert inner_loop(strategy, lambda inputs, labels: tf.zeros([3]), iterator)(3).steps == 3
