"""One optimizer step, and the inner loop that runs many of them without returning to Python."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.input.training import TargetsOfBatch
from pipeline.training.engine import batches, rows
from pipeline.training.engine.batches import Making
from pipeline.training.engine.recomputation import NOTHING_AGAIN
from pipeline.training.engine.replicas import gathered, sums_without_gradient
from pipeline.training.loop.clock import Tally
from pipeline.training.tasks.objective import Objective
from pipeline.training.tasks.task import Task

# --- Leaves out updates of steps whose loss or gradient is not finite, on all replicas alike.


def apply_if_finite(
    optimizer: keras.optimizers.Optimizer,
    summed: Sequence[tf.Tensor],
    variables: Sequence[keras.Variable],
    *,
    loss: tf.Tensor,
) -> tf.Tensor:
    """Updates the variables, or changes nothing; returns whether all is finite, bool [].

    The gradients of float16 are not checked here, because they are scaled, and float16's optimizer routinely
    skips steps whose gradients are too large.

    Args:
      summed: gradients, over all replicas.
      loss: float32 [], this replica's.
    """
    checked = [] if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) else summed
    finite = tf.reduce_all([_is_finite(each) for each in (*sums_without_gradient([loss]), *checked)])
    if tf.__internal__.distribute.strategy_supports_no_merge_call():
        _where(finite, lambda: optimizer.apply(summed, variables))
    else:
        # The update merges the replicas, so a condition around it must be where all replicas are merged
        # already (TensorFlow 2.21). Keras's LossScaleOptimizer does the same.
        context = tf.distribute.get_replica_context()
        context.merge_call(_apply_where, args=(finite, optimizer, summed, variables))
    return finite


class Kept:
    """Variables that a forward pass itself changes, such as moving statistics, and may spoil."""

    def __init__(self, variables: Sequence[keras.Variable]) -> None:
        floating = [each for each in variables if "float" in each.dtype]
        self._before = [(each, tf.identity(each.value)) for each in floating]

    def restore_unless(self, finite: tf.Tensor) -> None:
        """Puts back the values that the variables had when this object was made, unless `finite`, bool []."""
        for variable, before in self._before:
            variable.assign(tf.where(finite, variable.value, before))


def _is_finite(value: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    numbers = value.values if isinstance(value, tf.IndexedSlices) else value
    return tf.reduce_all(tf.math.is_finite(numbers))


def _apply_where(
    distribution: tf.distribute.Strategy,
    finite: tf.Tensor,
    optimizer: keras.optimizers.Optimizer,
    gradients: Sequence[tf.Tensor],
    variables: Sequence[keras.Variable],
) -> None:
    apply = distribution.extended.call_for_each_replica
    # All replicas have the same answer, because they compute it from sums over all of them.
    one = distribution.experimental_local_results(finite)[0]
    _where(one, lambda: apply(optimizer.apply, args=(gradients, variables)))


def _where(condition: tf.Tensor, run: Callable[[], object]) -> None:
    def chosen() -> tf.Tensor:
        run()
        return tf.constant(True)

    tf.cond(condition, chosen, lambda: tf.constant(False))


# --- Exponential moving averages of a model's weights, which are evaluated and exported in their place.


class Averages:
    """Averages of the trainable weights; the moving statistics of BatchNormalization are averages already.

    Step t's decay is min(`decay`, (1 + t) / (10 + t)), as in tf.train.ExponentialMovingAverage, so the first
    weights, which mean nothing, are forgotten soon. Make it under the model's strategy.
    """

    def __init__(self, model: keras.Model, *, decay: float) -> None:
        self._decay = decay
        self._weights = model.trainable_variables
        self.variables: Sequence[keras.Variable] = [_copy(each) for each in self._weights]

    def restart(self) -> None:
        """Takes the weights as they are, and forgets earlier ones."""
        for average, weight in zip(self.variables, self._weights, strict=True):
            average.assign(np.asarray(weight))

    def update(self, *, before: tf.Tensor, after: tf.Tensor) -> None:
        """Adds the new weights to the averages. Call it in a replica's context.

        Args:
          before: number of steps done before this one.
          after: number of steps done now; if it equals `before`, the step was skipped, and nothing changes.
        """
        done = tf.cast(after, tf.float32)
        rest = 1.0 - tf.minimum(self._decay, (1.0 + done) / (10.0 + done))
        rest *= tf.cast(after - before, tf.float32)
        for average, weight in zip(self.variables, self._weights, strict=True):
            value = tf.convert_to_tensor(average.value)
            average.assign(value + rest * (tf.convert_to_tensor(weight.value) - value))

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Within the block the model has the averages as weights. Code that changes weights there changes the
        averages.
        """
        trained = [np.asarray(each) for each in self._weights]
        self.take_place()
        try:
            yield
            for average, weight in zip(self.variables, self._weights, strict=True):
                average.assign(np.asarray(weight))
        finally:
            for weight, value in zip(self._weights, trained, strict=True):
                weight.assign(value)

    def take_place(self) -> None:
        """Makes the averages the model's weights, for good."""
        for average, weight in zip(self.variables, self._weights, strict=True):
            weight.assign(np.asarray(average))


def build_averages(decay: float, model: keras.Model) -> Averages | None:
    """Averages with this decay, from 0 to below 1; None where it is 0."""
    return Averages(model, decay=decay) if decay else None


def _copy(weight: keras.Variable) -> keras.Variable:
    *folders, name = weight.path.split("/")
    with contextlib.ExitStack() as path:
        for folder in folders:
            path.enter_context(keras.name_scope(folder))
        return keras.Variable(
            np.asarray(weight),
            trainable=False,
            dtype=weight.dtype,
            name=name,  # so a checkpoint's path names the weight that is averaged
            aggregation="only_first_replica",  # all replicas have the same value
        )


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
    recomputing: contextlib.AbstractContextManager = NOTHING_AGAIN,
) -> _Step:
    """A replica's part of a step: (inputs, targets) → float32 [3], its sums of (loss, hits, 1 if it is bad).

    A step is bad if its loss is infinite or not a number.

    The gradient is that of the mean loss over the global batch, plus the model's own losses, such as those of
    regularizers: each part divides its own sum by the whole batch, and `Update` adds the gradients.

    Args:
      spread: the unit of a loss that is squared. The gradient is that of the loss in this unit, as if the
        labels had a spread of 1. The reported loss is not divided.
      skips: whether a bad step changes no variable, and its loss and hits do not count; then a step whose
        gradient is not finite is bad, too.
      recomputing: what stands around each call of the model (recomputation.py).
    """
    update = Update(
        optimizer,
        model.trainable_variables,
        micro_batches=micro_batches,
        averages=averages,
        put_back=model.non_trainable_variables if skips else None,
    )

    has_classes = task.has_accuracy
    part, task = task.split(model, gather=gathered)

    def step(inputs: dict[str, tf.Tensor], targets: TargetsOfBatch) -> tf.Tensor:
        scale = _scale(task.counts(targets), global_batch)

        def loss_of(inputs: dict[str, tf.Tensor], targets: TargetsOfBatch) -> tuple[tf.Tensor, tf.Tensor]:
            with recomputing:
                logits, counts = part(inputs, training=True), task.counts(targets)  # (batch, outputs)
            if has_classes:
                _require_logits(logits)
            losses, hits = task.losses(targets, logits), task.hits(targets, logits)
            if counts is not None:
                losses, hits = losses * counts * scale, hits * counts * scale
            loss = tf.reduce_sum(losses)
            sums = tf.stack([loss, tf.reduce_sum(hits)])
            parts = micro_batches * tf.distribute.get_strategy().num_replicas_in_sync
            # Losses of a layer's outputs have its dtype, such as bfloat16.
            own = sum(tf.cast(each, loss.dtype) for each in model.losses)
            return loss / (global_batch * spread**2) + own / parts, sums

        return update(loss_of, inputs, targets)

    return tf.function(step, jit_compile=True, autograph=False) if jit_compile else step


def _require_logits(logits: tf.Tensor) -> None:
    """Raises InputError for what an activation of Keras gave; a class's call shows it only when traced."""
    if hasattr(logits, "_keras_logits"):  # Keras (3.15) notes it on what softmax and sigmoid return
        raise InputError(
            "model, its logits",
            received="what a softmax or a sigmoid gives",
            expected="logits: the loss and the predictions apply it themselves, exactly",
            action="Take the activation off the last layer.",
        )


def _scale(counts: tf.Tensor | None, global_batch: int) -> tf.Tensor | None:
    """The factor that gives counts of examples, float32 [batch] here, a mean of 1 over the global batch.

    Args:
      counts: None: each counts 1.
    """
    if counts is None:
        return None
    [whole] = sums_without_gradient([tf.reduce_sum(counts)])
    return tf.math.divide_no_nan(float(global_batch), whole)


def inner_loop(
    strategy: tf.distribute.Strategy,
    step: _Step,
    iterator: Iterator,
    *,
    updated: Sequence[keras.Variable] = (),
    making: Making | None = None,
    traced: Callable[[tf.Graph], None] = lambda graph: None,
    timestamp: Callable[[], tf.Tensor] = tf.timestamp,
    clock: Callable[[], float] = time.perf_counter,
    on_steps: Callable[[np.ndarray], None] = lambda seconds: None,
) -> Callable[[int], Tally]:
    """Makes a function (number of steps), which runs `strategy.run(step)` that many times inside one graph.

    The next batch is fetched while a step computes; in the last step of a call, nothing is fetched ahead. The
    wait for input is the time after the end of a step in which the next batch is still being made; the time
    of handing over a batch that is ready does not count. A GPU computes asynchronously, so there it is an
    upper bound.

    Args:
      iterator: over (inputs, targets) of the strategy's replicas.
      updated: variables that the step changes: it has ended when all are changed.
      making: gives the times in which the batches of `iterator` were made; None where these are not known:
        then handing batches over counts as waiting.
      traced: receives the graph of the steps.
      timestamp: seconds, float64 [], in the graph.
      clock: function that gives seconds, from any start.
      on_steps: receives the seconds of each step of a call, with its wait, float64 [steps].

    Raises:
      InputError: a feature has a size that differs from batch to batch.
    """
    batches.require_known_shapes(iterator.element_spec)
    # The loop is traced here, so that the first step's time does not include tracing.
    loop = _graph(strategy, step, iterator, updated, making, timestamp).get_concrete_function(
        tf.TensorSpec([], tf.int32)
    )
    traced(loop.graph)
    done = 0

    # It keeps a reference to the iterator: Python functions in the iterator's pipeline live only as long as
    # the iterator.
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
        """The next batch, and the times at which its making began and ended."""
        batch = next(iterator)
        with tf.control_dependencies(_parts(strategy, batch)):
            return batch, making() if making else _always()

    # The iterator is not an argument: flattening it would cost 0.3 ms in each call (TensorFlow 2.21,
    # measured).
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
            # The fetch runs while the step computes: handing a batch over takes some 100 µs. When the fetch
            # was written before the step, the step waited for it (TensorFlow 2.21, measured).
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
        # The sum is in float64, so it is the same however the steps are divided into calls.
        sums, times = tf.zeros([2], tf.float64), tf.TensorArray(tf.float64, steps)
        flags, wait = tf.TensorArray(tf.float64, steps), _wait(start, made, there)
        state = tf.constant(0), sums, there, wait, times, flags, first
        _, sums, _, waits, times, flags, _ = tf.while_loop(lambda done, *_: done < steps, one_more, state)
        return sums, waits, times.stack(), flags.stack()

    return loop


def _wait(since: tf.Tensor, making: tuple[tf.Tensor, tf.Tensor], there: tf.Tensor) -> tf.Tensor:
    """Seconds in which a batch was being made, between `since`, when it was wanted, and `there`, when it was
    there.
    """
    began, ended = making
    return tf.maximum(tf.minimum(ended, there) - tf.maximum(began, since), 0.0)


def _always() -> tuple[tf.Tensor, tf.Tensor]:
    return tf.constant(-np.inf, tf.float64), tf.constant(np.inf, tf.float64)


def _never() -> tuple[tf.Tensor, tf.Tensor]:
    return tf.constant(np.inf, tf.float64), tf.constant(-np.inf, tf.float64)


def _now(strategy: tf.distribute.Strategy, batch: tuple, timestamp: Callable[[], tf.Tensor]) -> tf.Tensor:
    """The time at which the whole batch is there, float64 seconds."""
    with tf.control_dependencies(_parts(strategy, batch)):
        return timestamp()


def _parts(strategy: tf.distribute.Strategy, batch: tuple) -> list[tf.Tensor]:
    return [part for each in tf.nest.flatten(batch) for part in strategy.experimental_local_results(each)]


def _values(strategy: tf.distribute.Strategy, variables: Sequence[keras.Variable]) -> list[tf.Tensor]:
    """Reads every replica's copy of the variables; in a graph this runs after earlier assignments."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return []  # a step is one op there, whose result comes last
    copies = [copy for variable in variables for copy in strategy.experimental_local_results(variable.value)]
    return [_value(copy) for copy in copies]


def _value(variable: tf.Variable) -> tf.Tensor:
    # A large matrix may be a table that is updated by rows. One row of it is enough here: TensorFlow would
    # copy the whole table.
    if len(variable.shape) == 2 and math.prod(variable.shape) >= rows.LARGE:
        return variable.sparse_read([0])
    return variable.read_value()


# --- From gradients to weights: in one order, with the same numbers under every strategy.
#
# parts of a batch added, rows of equal ids summed → summed over replicas → unscaled → finite? → clipped by
# global norm → applied → averaged
#
# Summing and averaging are here; the rest is Keras's. By itself, Keras (3.15, measured) treats an id that
# occurs four times in a batch as four gradients, so Adam's second moment is 0.004 instead of 0.016. It also
# clips, and looks for infinities, before the replicas' gradients are added, so each replica decides for
# itself.


# The version of how a step uses a batch. A run is continued only with the version with which it began.
VERSION = 1

# From this many numbers in a row, `scatter_nd` adds rows in less CPU time than `unsorted_segment_sum`: a
# quarter less with 16 numbers, but half as much again with 8 (TensorFlow 2.21, 3,328 rows, 2 cores,
# measured).
_WIDE_ROW = 16

# The least scale of a float16 loss. A gradient that is too large even below this scale is above 2¹⁴ × 65,504
# = 1e9, so it is not finite in practice.
_LEAST_SCALE = 2.0**-14

Inputs = dict[str, tf.Tensor]
# (inputs, targets) → what these examples add to the loss, a scalar; and sums over them, float32 [n].
LossOf = Callable[[Inputs, TargetsOfBatch], tuple[tf.Tensor, tf.Tensor]]
# In the variables' shapes, or rows of tables that are updated by rows; None: not connected to the loss.
_Gradients = list[tf.Tensor | tf.IndexedSlices | None]


class Update:
    """A replica's part of a step. Call it in the replica's context.

    Args:
      optimizer: its own sum over replicas is turned off, because it comes too late.
      micro_batches: number of equal parts of a replica's examples; one part at a time is in memory. Each part
        has statistics (BatchNormalization) and masks (dropout) of its own.
      averages: averages of the weights, to keep up to date.
      put_back: variables that a forward pass changes, such as moving statistics. If they are given, a step
        whose loss or gradient is not finite changes nothing; None: it is applied like any other.
    """

    def __init__(
        self,
        optimizer: keras.optimizers.Optimizer,
        variables: Sequence[keras.Variable],
        *,
        micro_batches: int = 1,
        averages: Averages | None = None,
        put_back: Sequence[keras.Variable] | None = None,
    ) -> None:
        self._optimizer = optimizer
        self._inner = getattr(optimizer, "inner_optimizer", optimizer)
        self._inner._all_reduce_sum_gradients = list
        self._variables = variables
        self._micro_batches = micro_batches
        self._averages = averages
        self._put_back = put_back

    def __call__(self, loss_of: LossOf, inputs: Inputs, targets: TargetsOfBatch) -> tf.Tensor:
        """Changes the weights; returns float32 [n + 1]: the sums over the examples, and 1 if the step is bad.

        A step is bad if this replica's loss is infinite or not a number. In float16 it is also bad if
        gradients were too large so often that the scale of the loss is below its limit. Where bad steps are
        put back, a step with such a loss or gradient on one replica is bad on all of them, and its sums are
        0.
        """
        kept = None if self._put_back is None else Kept(self._put_back)
        gradients, sums = self._accumulated(loss_of, inputs, targets)
        before = tf.convert_to_tensor(self._inner.iterations.value)
        finite = self._apply(gradients, loss=sums[-1])
        if self._averages:
            # float16 skips the step, and does not count it, where a gradient is not finite.
            self._averages.update(before=before, after=tf.convert_to_tensor(self._inner.iterations.value))
        sound = finite & self._is_scaled()
        counted = tf.concat([sums[:-1], [tf.cast(~sound, tf.float32)]], axis=0)
        if kept is None:
            return counted
        kept.restore_unless(finite)
        size = counted.shape[0]
        return tf.where(sound, counted, tf.one_hot(size - 1, size))

    def _is_scaled(self) -> tf.Tensor:
        """Returns whether float16's scale is not too small, bool []; True in other dtypes."""
        if not isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer):
            return tf.constant(True)
        return tf.convert_to_tensor(self._optimizer.dynamic_scale.value) >= _LEAST_SCALE

    def _accumulated(
        self, loss_of: LossOf, inputs: Inputs, targets: TargetsOfBatch
    ) -> tuple[_Gradients, tf.Tensor]:
        if self._micro_batches == 1:
            return self._gradients(loss_of, inputs, targets)
        parts = []
        # This is not a tf.while_loop: inside one, replicas cannot be merged (TensorFlow 2.21, measured).
        for number in range(self._micro_batches):
            # The next part waits for this one, so activations of two are never in memory.
            with tf.control_dependencies(
                [each for each in parts[-1][0] if each is not None] if parts else []
            ):
                of_part = tf.nest.map_structure(lambda each: self._part(each, number), (inputs, targets))  # noqa: B023
            parts.append(self._gradients(loss_of, *of_part))
            if number:
                parts = [_added(*parts)]
        return parts[0]

    def _part(self, values: tf.Tensor, number: int) -> tf.Tensor:
        # With several workers, TensorFlow (2.21, measured) does not know a worker's batch size in advance.
        return tf.reshape(values, [self._micro_batches, -1, *values.shape[1:]])[number]

    def _gradients(
        self, loss_of: LossOf, inputs: Inputs, targets: TargetsOfBatch
    ) -> tuple[_Gradients, tf.Tensor]:
        """Returns the gradients of some examples, and float32 [n + 1]: the sums, then these examples' part of
        the loss.
        """
        with tf.GradientTape() as tape:
            loss, sums = loss_of(inputs, targets)
            # This does nothing except in float16, whose optimizer divides the gradients again.
            scaled = self._optimizer.scale_loss(loss)
        found = tape.gradient(scaled, self._variables)
        gradients = [
            each if rows.is_by_rows(self._inner, of) else dense(each, of)
            for each, of in zip(found, self._variables, strict=True)
        ]
        return gradients, tf.concat([sums, [loss]], axis=0)

    def _apply(self, gradients: _Gradients, *, loss: tf.Tensor) -> tf.Tensor:
        """Updates the variables, or puts the step back; returns whether its numbers are finite, bool []."""
        pairs = zip(gradients, self._variables, strict=True)
        connected = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        if not connected:
            raise _untouched(self._variables)
        summed = _summed([gradient for gradient, _ in connected])
        variables = [variable for _, variable in connected]
        if self._put_back is not None:
            return apply_if_finite(self._optimizer, summed, variables, loss=loss)
        self._optimizer.apply(summed, variables)
        return tf.math.is_finite(loss)


def _untouched(variables: Sequence[keras.Variable]) -> InputError:
    names = ", ".join(each.path for each in variables[:5])
    return InputError(
        "model",
        received=f"a loss that none of its {len(variables):,} weights touches: {names}",
        expected="weights between inputs and logits, with nothing between that has no gradient",
        action="Look for round, argmax, stop_gradient, a cast to whole numbers, or an unused layer.",
    )


def _summed(gradients: _Gradients) -> _Gradients:
    """The sums over all replicas, in the same order."""
    found = iter(
        sums_without_gradient([each for each in gradients if not isinstance(each, tf.IndexedSlices)])
    )
    return [rows.summed(each) if isinstance(each, tf.IndexedSlices) else next(found) for each in gradients]


def dense(gradient: tf.Tensor | tf.IndexedSlices | None, variable: keras.Variable) -> tf.Tensor | None:
    """Makes a gradient dense, in the variable's shape; rows with equal ids are added.

    A dense update computes with whole tables anyway, so this costs no more memory than its moments.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    ids, values, shape = gradient.indices, gradient.values, variable.shape
    if math.prod(shape[1:]) < _WIDE_ROW:
        return tf.math.unsorted_segment_sum(values, ids, shape[0])
    return tf.scatter_nd(ids[:, None], values, shape)


def _added(
    one: tuple[_Gradients, tf.Tensor], other: tuple[_Gradients, tf.Tensor]
) -> tuple[_Gradients, tf.Tensor]:
    gradients = [_sum_of(a, b) for a, b in zip(one[0], other[0], strict=True)]
    return gradients, one[1] + other[1]


def _sum_of(
    one: tf.Tensor | tf.IndexedSlices | None, other: tf.Tensor | tf.IndexedSlices | None
) -> tf.Tensor | tf.IndexedSlices | None:
    if other is None:
        return one
    return rows.added(one, other) if isinstance(one, tf.IndexedSlices) else one + other
