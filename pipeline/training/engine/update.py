"""How gradients become new weights: in one order, and with the same numbers under every strategy.

    parts of a batch added, rows of equal ids summed → summed over replicas → unscaled → finite? → clipped by
    global norm → applied → averaged

What is summed and averaged is here; the rest is Keras's. Left to itself, Keras (3.15, measured) takes an id
that comes four times in a batch for four gradients, so Adam's second moment is 0.004 and not 0.016. It clips,
and looks for infinities, before the replicas' gradients are added: each replica judges by its own.
"""

import math
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from pipeline.data.errors import InputError
from pipeline.data.input.targets import TargetsOfBatch
from pipeline.training.engine.averages import Averages
from pipeline.training.engine.guards import skipping

# Of what a step makes of a batch. A run is continued only with the version it began with.
# 2: equal ids summed, replicas summed before clipping, statistics of the whole batch, a mask a replica.
VERSION = 2

# Numbers of a row from which on `scatter_nd` adds rows in less CPU time than `unsorted_segment_sum`: a
# quarter less at 16, half as much again at 8 (TensorFlow 2.21, 3,328 rows, 2 cores, measured).
_WIDE_ROW = 16

# Of a loss in float16: at it a gradient is too large from 2¹⁴ × 65,504 = 1e9 on, which is to say not finite.
_LEAST_SCALE = 2.0**-14

Inputs = dict[str, tf.Tensor]
# (inputs, targets) → what these examples add to the loss, a scalar; and sums over them, float32 [n].
LossOf = Callable[[Inputs, TargetsOfBatch], tuple[tf.Tensor, tf.Tensor]]
_Gradients = list[tf.Tensor | None]  # of a variable's shape; None: not connected


class Update:
    """A replica's part of a step. Call it in the replica's context.

    Args:
      optimizer: its own sum over replicas, which comes too late, is turned off.
      micro_batches: equal parts of a replica's examples, of which one at a time is in memory. Each has
        statistics (BatchNormalization) and masks (dropout) of its own.
      averages: of the weights, to keep up to date.
      put_back: what a forward pass changes, such as moving statistics. Where it is given, a step whose loss
        or gradient is not finite changes nothing; None: it is applied as any other.
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
        """Changes the weights; returns float32 [n + 1]: sums over its examples, and 1 if it is bad.

        A step is bad if this replica's loss is infinite or not a number; in float16 also where gradients were
        too large so often that the loss is no longer scaled up. Where such steps are put back, it is bad on
        all replicas, as one with such a gradient is; its sums are 0 then.
        """
        kept = None if self._put_back is None else skipping.Kept(self._put_back)
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
        """Whether float16's scale is one that gradients can need, bool []; True in other dtypes."""
        if not isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer):
            return tf.constant(True)
        return tf.convert_to_tensor(self._optimizer.dynamic_scale.value) >= _LEAST_SCALE

    def _accumulated(
        self, loss_of: LossOf, inputs: Inputs, targets: TargetsOfBatch
    ) -> tuple[_Gradients, tf.Tensor]:
        if self._micro_batches == 1:
            return self._gradients(loss_of, inputs, targets)
        parts = []
        # Not a tf.while_loop: inside one, a replica cannot meet the others (TensorFlow 2.21, measured).
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
        # Of a worker of several, TensorFlow (2.21, measured) does not know the size of the batch beforehand.
        return tf.reshape(values, [self._micro_batches, -1, *values.shape[1:]])[number]

    def _gradients(
        self, loss_of: LossOf, inputs: Inputs, targets: TargetsOfBatch
    ) -> tuple[_Gradients, tf.Tensor]:
        """Of some examples: gradients, and float32 [n + 1], the sums and what they add to the loss."""
        with tf.GradientTape() as tape:
            loss, sums = loss_of(inputs, targets)
            # A no-op but for float16, whose optimizer divides the gradients again.
            scaled = self._optimizer.scale_loss(loss)
        found = tape.gradient(scaled, self._variables)
        gradients = [dense(each, of) for each, of in zip(found, self._variables, strict=True)]
        return gradients, tf.concat([sums, [loss]], axis=0)

    def _apply(self, gradients: _Gradients, *, loss: tf.Tensor) -> tf.Tensor:
        """Updates the variables, or puts the step back; returns whether its numbers are finite, bool []."""
        pairs = zip(gradients, self._variables, strict=True)
        connected = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        if not connected:
            raise _untouched(self._variables)
        summed = tf.distribute.get_replica_context().all_reduce(
            "SUM", [gradient for gradient, _ in connected]
        )
        variables = [variable for _, variable in connected]
        if self._put_back is not None:
            return skipping.apply_if_finite(self._optimizer, summed, variables, loss=loss)
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


def dense(gradient: tf.Tensor | tf.IndexedSlices | None, variable: keras.Variable) -> tf.Tensor | None:
    """A gradient of the variable's shape; rows of equal ids are added.

    Keras's Adam computes with whole tables anyway, so this costs no more memory than its moments.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    ids, rows, shape = gradient.indices, gradient.values, variable.shape
    if math.prod(shape[1:]) < _WIDE_ROW:
        return tf.math.unsorted_segment_sum(rows, ids, shape[0])
    return tf.scatter_nd(ids[:, None], rows, shape)


def _added(
    one: tuple[_Gradients, tf.Tensor], other: tuple[_Gradients, tf.Tensor]
) -> tuple[_Gradients, tf.Tensor]:
    gradients = [a if b is None else a + b for a, b in zip(one[0], other[0], strict=True)]
    return gradients, one[1] + other[1]
