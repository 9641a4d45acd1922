"""The inner loop: many steps in one graph, with sums over steps and replicas."""

import itertools
import threading
import time
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.training.engine import batches
from pipeline.training.engine import step as step_lib
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.batches import distributed, timed
from pipeline.training.engine.replicas import adapt_to_replicas
from pipeline.training.engine.step import inner_loop, train_step
from pipeline.training.loop.clock import Tally
from pipeline.training.loop.outer import InnerLoop
from pipeline.training.run import request
from pipeline.training.tasks.classification import Binary, Regression

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

    return model, inner_loop(strategy, step, iter(distributed(strategy, batches)))


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
    iterator = iter(distributed(strategy, lambda context: dataset))
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

    return inner_loop(strategy, step, iter(distributed(strategy, lambda _: dataset)))


BATCH = (tf.ones([64, 256]), tf.ones([64]))


def body_of_loop(step, updated: tuple[keras.Variable, ...] = ()) -> dict:
    """Nodes, by name, of what the loop does for each step."""
    strategy = strategy_lib.create("one_device")
    dataset = tf.data.Dataset.from_tensors(BATCH).repeat()
    iterator = iter(distributed(strategy, lambda _: dataset))
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
    iterator = iter(distributed(strategy, lambda context: dataset))

    def step(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        """Takes longer than the clock's microsecond."""
        root = tf.random.uniform([300, 300])
        return tf.fill([3], tf.reduce_sum(root @ root))

    loop = inner_loop(strategy, step, iterator, on_steps=seconds.append)
    tally = loop(5)
    assert seconds[0].shape == (5,)
    assert seconds[0].min() > 0
    assert seconds[0].sum() <= tally.seconds


def test_nothing_is_fetched_beyond_the_last_step():
    strategy = strategy_lib.create("one_device")
    three = tf.data.Dataset.from_tensors(({"numeric": X}, Y)).repeat(3)
    iterator = iter(distributed(strategy, lambda context: three))
    assert inner_loop(strategy, lambda inputs, labels: tf.zeros([3]), iterator)(3).steps == 3


# A step whose loss or gradient is not finite changes nothing on any replica; the next one goes on.

SMALL_BATCH, STEPS, BAD = 4, 6, 3
INPUTS = np.random.default_rng(0).normal(size=(SMALL_BATCH * STEPS, 3)).astype("float32")
TARGETS = INPUTS.sum(axis=1)


def poisoned(row: int) -> np.ndarray:
    """The inputs with a NaN in a row of step BAD."""
    spoiled = INPUTS.copy()
    spoiled[BAD * SMALL_BATCH + row] = np.nan
    return spoiled


@tf.custom_gradient
def infinite_at_zero(values: tf.Tensor) -> tuple:
    """The values themselves; the gradient is infinite where a value is 0."""
    return values, lambda upstream: tf.where(values == 0, np.inf, upstream)


class InfiniteAtZero(keras.layers.Layer):
    def call(self, values: tf.Tensor) -> tf.Tensor:
        return infinite_at_zero(values)


def skipping(
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
        adapt_to_replicas(model, replicas=strategy.num_replicas_in_sync)
        plain = keras.optimizers.AdamW(0.1, weight_decay=0.1)
        model.optimizer = keras.optimizers.LossScaleOptimizer(plain) if scaled else plain
        model.optimizer.build(model.trainable_variables)
        kept = step_lib.build_averages(0.5, model)
        model.averages = kept.variables
    step = train_step(
        model,
        model.optimizer,
        task=Regression(),
        global_batch=SMALL_BATCH,
        skips=skips,
        averages=kept,
        micro_batches=micro_batches,
    )

    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        each = context.get_per_replica_batch_size(SMALL_BATCH)
        return tf.data.Dataset.from_tensor_slices((x, np.resize(TARGETS, len(x)))).batch(
            each, drop_remainder=True
        )

    return model, inner_loop(strategy, step, iter(distributed(strategy, batches)))


def state(model: keras.Model) -> list[np.ndarray]:
    return [np.asarray(each) for each in (*model.variables, *model.optimizer.variables, *model.averages)]


@pytest.mark.parametrize(
    ("name", "micro_batches", "scaled"),
    [
        pytest.param("one_device", 1, True, marks=pytest.mark.slow),
        ("one_device", 4, False),
        pytest.param("mirrored", 1, False, marks=pytest.mark.slow),
        pytest.param("mirrored", 2, True, marks=pytest.mark.slow),
    ],
)
def test_a_bad_step_leaves_no_trace(name, micro_batches, scaled):
    # The NaN is in the last replica's half of the batch, and in the last part of it.
    model, loop = skipping(name, poisoned(row=SMALL_BATCH - 1), scaled=scaled, micro_batches=micro_batches)
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
    together, loop = skipping("one_device", x)
    assert loop(STEPS).bad == (0, BAD)
    apart, loop = skipping("one_device", x)
    for _ in range(STEPS):
        loop(1)
    for one, other in zip(state(together), state(apart), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_gradient_that_is_not_finite_is_bad_though_the_loss_is_finite():
    zeros = keras.layers.Dense(1, kernel_initializer="zeros", bias_initializer="zeros")
    last = keras.Sequential([zeros, InfiniteAtZero()])
    model, loop = skipping("mirrored", INPUTS, last=last)
    before = state(model)
    assert loop(1).bad == (0,)
    for value, was in zip(state(model), before, strict=True):
        np.testing.assert_array_equal(value, was)


@pytest.mark.parametrize(("name", "skips"), [("one_device", False), ("mirrored", True)])
@pytest.mark.slow
def test_float16_leaves_out_no_more_steps_than_a_scale_can_cause(name, skips):
    zeros = keras.layers.Dense(1, kernel_initializer="zeros", bias_initializer="zeros")
    last = keras.Sequential([zeros, InfiniteAtZero()])
    _, loop = skipping(name, np.concatenate([INPUTS] * 6), last=last, scaled=True, skips=skips)
    # Each step halves the scale, from 2¹⁵ on; that of step 29 is below 2⁻¹⁴ when it is done.
    assert loop(32).bad == (29, 30, 31)


def test_without_a_bad_step_the_weights_are_those_of_the_plain_update():
    (plain, loop), (skipped, other) = (
        skipping("mirrored", INPUTS, skips=False),
        skipping("mirrored", INPUTS),
    )
    assert (loop(STEPS).bad, other(STEPS).bad) == ((), ())
    for one, another in zip(state(plain), state(skipped), strict=True):
        np.testing.assert_array_equal(one, another)


def test_a_step_that_is_not_skipped_is_named_and_its_loss_told():
    _, loop = skipping("mirrored", poisoned(row=1), skips=False)
    tally = loop(BAD + 1)
    assert tally.bad == (BAD,)
    assert np.isnan(tally.loss)


# Batches whose shape changes are named, with the feature, before each is compiled anew.


def test_a_second_trace_names_the_feature_and_both_shapes():
    once = batches.traced_once(lambda inputs, labels: inputs["age"], thing="evaluation of 'x'")
    summed = tf.function(once, autograph=False)
    summed({"age": tf.zeros([4, 3]), "sex": tf.zeros([4])}, tf.zeros([4]))
    summed({"age": tf.ones([4, 3]), "sex": tf.zeros([4])}, tf.zeros([4]))
    with pytest.raises(
        InputError,
        match=r"evaluation of 'x', model input 'age': received a batch of \[4, 5\] float32 after batches of "
        r"\[4, 3\] float32; expected the same",
    ):
        summed({"age": tf.zeros([4, 5]), "sex": tf.zeros([4])}, tf.zeros([4]))


def test_another_type_or_a_label_is_named_too():
    function = batches.traced_once(lambda *batch: None, thing="a")
    function({"x": tf.zeros([2])}, tf.zeros([2]))
    with pytest.raises(InputError, match=r"input 'x': received a batch of \[2\] int32 after .* float32"):
        function({"x": tf.zeros([2], tf.int32)}, tf.zeros([2]))
    with pytest.raises(InputError, match=r"input 'label': received a batch of \[2, 1\] float32"):
        function({"x": tf.zeros([2])}, tf.zeros([2, 1]))


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_a_size_that_is_known_at_run_time_only_is_refused_before_training(name):
    strategy = strategy_lib.create(name)
    with strategy.scope():
        inputs = keras.Input((None, 2), name="words")
        outputs = keras.layers.Dense(1)(keras.ops.sum(inputs, axis=1))
        model = keras.Model({"words": inputs}, outputs)
        model.optimizer = keras.optimizers.SGD(0.1)
        model.optimizer.build(model.trainable_variables)

    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        whole = tf.data.Dataset.range(8).map(lambda n: ({"words": tf.zeros([n % 2 + 1, 2])}, 0.0))
        return whole.ragged_batch(2, drop_remainder=True).map(
            lambda inputs, label: ({"words": inputs["words"].to_tensor()}, label)
        )

    step = train_step(model, model.optimizer, task=Regression(), global_batch=4)
    with pytest.raises(
        InputError, match=r"'words': received batches of shape \[2, \?, 2\] float32; expected"
    ):
        inner_loop(strategy, step, iter(distributed(strategy, batches)))
