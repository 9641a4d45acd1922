"""Leaves out the update of a step whose loss or gradient is not finite, on all replicas alike."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf


def apply_if_finite(
    optimizer: keras.optimizers.Optimizer,
    summed: Sequence[tf.Tensor],
    variables: Sequence[keras.Variable],
    *,
    loss: tf.Tensor,
) -> tf.Tensor:
    """Updates the variables, or changes nothing; returns whether all is finite, bool [].

    The gradients of float16 are not judged: they are scaled, and its optimizer itself leaves out those that
    are too large, as a matter of course.

    Args:
      summed: gradients, over all replicas.
      loss: float32 [], this replica's.
    """
    judged = [] if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) else summed
    context = tf.distribute.get_replica_context()
    finite = tf.reduce_all([_is_finite(each) for each in (context.all_reduce("SUM", loss), *judged)])
    if tf.__internal__.distribute.strategy_supports_no_merge_call():
        _where(finite, lambda: optimizer.apply(summed, variables))
    else:
        # The update merges the replicas, so a condition around it must stand where all are merged already
        # (TensorFlow 2.21). Keras's LossScaleOptimizer does the same.
        context.merge_call(_apply_where, args=(finite, optimizer, summed, variables))
    return finite


class Kept:
    """What a forward pass changes besides the gradient: moving statistics, which it may spoil."""

    def __init__(self, variables: Sequence[keras.Variable]) -> None:
        floating = [each for each in variables if "float" in each.dtype]
        self._before = [(each, tf.identity(each.value)) for each in floating]

    def restore_unless(self, finite: tf.Tensor) -> None:
        """Puts back the values of when this was made, unless `finite`, bool []."""
        for variable, before in self._before:
            variable.assign(tf.where(finite, variable.value, before))


def _is_finite(value: tf.Tensor) -> tf.Tensor:
    return tf.reduce_all(tf.math.is_finite(value))


def _apply_where(
    distribution: tf.distribute.Strategy,
    finite: tf.Tensor,
    optimizer: keras.optimizers.Optimizer,
    gradients: Sequence[tf.Tensor],
    variables: Sequence[keras.Variable],
) -> None:
    apply = distribution.extended.call_for_each_replica
    # Each replica came to the same answer, of sums over all.
    one = distribution.experimental_local_results(finite)[0]
    _where(one, lambda: apply(optimizer.apply, args=(gradients, variables)))


def _where(condition: tf.Tensor, run: Callable[[], object]) -> None:
    def chosen() -> tf.Tensor:
        run()
        return tf.constant(True)

    tf.cond(condition, chosen, lambda: tf.constant(False))
