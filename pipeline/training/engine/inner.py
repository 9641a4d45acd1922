"""One optimizer step, and the inner loop that runs many of them without returning to Python."""

import time
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.input.targets import TargetsOfBatch
from pipeline.training.engine.averages import Averages
from pipeline.training.engine.guards import step_shapes
from pipeline.training.engine.host_batches import Making
from pipeline.training.engine.update import Update
from pipeline.training.loop.step_sums import Tally
from pipeline.training.tasks.objective import Objective
from pipeline.training.tasks.task import Task

_Step = Callable[[dict[str, tf.Tensor], TargetsOfBatch], tf.Tensor]


def train_step(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    *,
    task: Task | Objective,
    global_batch: int,
    jit_compile: bool = False,
    micro_batches: int = 1,
    averages: Averages | None = None,
    skips: bool = False,
    spread: float = 1.0,
) -> _Step:
    """A replica's part of a step: (inputs, targets) → float32 [3], its sums of (loss, hits, 1 if it is bad).

    A step is bad if its loss is infinite or not a number.

    The gradient is that of the mean loss over the global batch and of the model's own losses, such as those
    of regularizers: each part divides its own sum by the whole batch, and `Update` adds the gradients.

    Args:
      spread: the unit in which the loss is squared: the gradient is that of the loss in it, as if the labels
        had a spread of 1. What is told of the loss is not divided.
      skips: changes no variable in a bad step, and counts neither its loss nor its hits; one whose gradient
        is not finite is bad, too.
    """
    update = Update(
        optimizer,
        model.trainable_variables,
        micro_batches=micro_batches,
        averages=averages,
        put_back=model.non_trainable_variables if skips else None,
    )

    def loss_of(inputs: dict[str, tf.Tensor], targets: TargetsOfBatch) -> tuple[tf.Tensor, tf.Tensor]:
        logits = model(inputs, training=True)  # (batch, outputs)
        loss = tf.reduce_sum(task.losses(targets, logits))
        sums = tf.stack([loss, tf.reduce_sum(task.hits(targets, logits))])
        parts = micro_batches * tf.distribute.get_strategy().num_replicas_in_sync
        # Those of what a layer outputs have its dtype, such as bfloat16.
        own = sum(tf.cast(each, loss.dtype) for each in model.losses)
        return loss / (global_batch * spread**2) + own / parts, sums

    def step(inputs: dict[str, tf.Tensor], targets: TargetsOfBatch) -> tf.Tensor:
        return update(loss_of, inputs, targets)

    return tf.function(step, jit_compile=True, autograph=False) if jit_compile else step


def inner_loop(
    strategy: tf.distribute.Strategy,
    step: _Step,
    iterator: Iterator,
    *,
    updated: Sequence[keras.Variable] = (),
    making: Making | None = None,
    timestamp: Callable[[], tf.Tensor] = tf.timestamp,
    clock: Callable[[], float] = time.perf_counter,
    on_steps: Callable[[np.ndarray], None] = lambda seconds: None,
) -> Callable[[int], Tally]:
    """A function of a number of steps: runs `strategy.run(step)` so often inside one graph.

    The next batch is fetched while a step computes; of the last step of a call, nothing is fetched ahead.
    The wait for input is the time after the end of a step in which the next batch is still in the making:
    handing over one that is ready is none. A GPU computes asynchronously, so there it is an upper bound.

    Args:
      iterator: over (inputs, targets) of the strategy's replicas.
      updated: variables that the step changes: it has ended when all are changed.
      making: when the batches of `iterator` were in the making (`host_batches.timed`); None where that is not
        known: then handing them over counts as waiting.
      timestamp: seconds, float64 [], in the graph.
      clock: seconds, from any start.
      on_steps: told the seconds of each step of a call with its wait, float64 [steps].

    Raises:
      InputError: a feature has a size that differs from batch to batch.
    """
    step_shapes.require_known(iterator.element_spec)
    # Traced here, so that the first step's time is a step's time.
    loop = _graph(strategy, step, iterator, updated, making, timestamp).get_concrete_function(
        tf.TensorSpec([], tf.int32)
    )
    done = 0

    # It keeps the iterator: Python functions of its pipeline live no longer than it does.
    def run(steps: int, _kept: Iterator = iterator) -> Tally:
        nonlocal done
        start = clock()
        sums, wait, seconds, flags = loop(tf.constant(steps))
        loss, hits = sums.numpy().tolist()
        bad = tuple(done + number for number in np.flatnonzero(flags.numpy()).tolist())
        done += steps
        tally = Tally(
            steps=steps,
            seconds=clock() - start,
            input_wait_s=float(wait),
            loss=loss,
            hits=hits,
            bad=bad,
        )
        on_steps(seconds.numpy())
        return tally

    return run


def _graph(
    strategy: tf.distribute.Strategy,
    step: _Step,
    iterator: Iterator,
    updated: Sequence[keras.Variable],
    making: Making | None,
    timestamp: Callable[[], tf.Tensor],
) -> tf.types.experimental.PolymorphicFunction:
    def take() -> tuple[tuple, tuple[tf.Tensor, tf.Tensor]]:
        """The next batch, and when it was in the making."""
        batch = next(iterator)
        with tf.control_dependencies(_parts(strategy, batch)):
            return batch, making() if making else _always()

    # The iterator is no argument: taking it apart costs 0.3 ms a call (TensorFlow 2.21, measured).
    @tf.function(autograph=False)
    def loop(steps: tf.Tensor) -> tuple[tf.Tensor, ...]:
        def one_more(
            done: tf.Tensor,
            sums: tf.Tensor,
            begun: tf.Tensor,
            waits: tf.Tensor,
            times: tf.TensorArray,
            flags: tf.TensorArray,
            batch: tuple,
        ) -> tuple:
            part = strategy.run(step, args=batch)
            whole = tf.cast(strategy.reduce("SUM", part, axis=None), tf.float64)
            sums += whole[:2]
            with tf.control_dependencies([sums, *_values(strategy, updated)]):
                ended = timestamp()
            # While the step computes: handing a batch over takes some 100 µs. Written before the step, the
            # fetch was waited for before the step began (TensorFlow 2.21, measured).
            ahead, made = tf.cond(done + 1 < steps, take, lambda: (batch, _never()))
            there = _now(strategy, ahead, timestamp)
            ready = tf.maximum(there, ended)
            times, flags = times.write(done, ready - begun), flags.write(done, whole[2])
            waits += _wait(ended, made, ready)
            with tf.control_dependencies([ready]):
                return done + 1, sums, ready, waits, times, flags, ahead

        start = timestamp()
        with tf.control_dependencies([start]):
            first, made = take()
        there = _now(strategy, first, timestamp)
        # In float64 a sum is the same however the steps are parted into calls.
        sums, times = tf.zeros([2], tf.float64), tf.TensorArray(tf.float64, steps)
        flags, wait = tf.TensorArray(tf.float64, steps), _wait(start, made, there)
        state = tf.constant(0), sums, there, wait, times, flags, first
        _, sums, _, waits, times, flags, _ = tf.while_loop(lambda done, *_: done < steps, one_more, state)
        return sums, waits, times.stack(), flags.stack()

    return loop


def _wait(since: tf.Tensor, making: tuple[tf.Tensor, tf.Tensor], there: tf.Tensor) -> tf.Tensor:
    """Seconds between `since`, when a batch was wanted, and `there` in which it was in the making."""
    began, ended = making
    return tf.maximum(tf.minimum(ended, there) - tf.maximum(began, since), 0.0)


def _always() -> tuple[tf.Tensor, tf.Tensor]:
    return tf.constant(-np.inf, tf.float64), tf.constant(np.inf, tf.float64)


def _never() -> tuple[tf.Tensor, tf.Tensor]:
    return tf.constant(np.inf, tf.float64), tf.constant(-np.inf, tf.float64)


def _now(strategy: tf.distribute.Strategy, batch: tuple, timestamp: Callable[[], tf.Tensor]) -> tf.Tensor:
    """The time when all of the batch is there, float64 seconds."""
    with tf.control_dependencies(_parts(strategy, batch)):
        return timestamp()


def _parts(strategy: tf.distribute.Strategy, batch: tuple) -> list[tf.Tensor]:
    """The tensors of every replica."""
    return [part for each in tf.nest.flatten(batch) for part in strategy.experimental_local_results(each)]


def _values(strategy: tf.distribute.Strategy, variables: Sequence[keras.Variable]) -> list[tf.Tensor]:
    """Reads every replica's copy, which a function does after what was assigned before."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return []  # a step is one op there, whose result comes last
    copies = [copy for variable in variables for copy in strategy.experimental_local_results(variable.value)]
    return [copy.read_value() for copy in copies]
