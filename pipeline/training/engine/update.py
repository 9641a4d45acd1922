"""How gradients become new weights: in one order, and with the same numbers under every strategy.

    rows of equal ids summed → summed over replicas → unscaled → finite? → clipped by global norm → applied

Here they are summed; the rest is Keras's. Left to itself, Keras (3.15, measured) takes an id that comes four
times in a batch for four gradients, so Adam's second moment is 0.004 and not 0.016. It clips, and looks for
infinities, before the replicas' gradients are added: each replica judges by its own.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf

# Of what a step makes of a batch. A run is continued only with the version it began with.
# 2: equal ids summed, replicas summed before clipping, statistics of the whole batch, a mask a replica.
VERSION = 2

Gradient = tf.Tensor | tf.IndexedSlices | None


def summing_is_ours(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """The same optimizer, which no longer adds the replicas' gradients: `apply` has done so before."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    inner._all_reduce_sum_gradients = list
    return optimizer


def apply(
    optimizer: keras.optimizers.Optimizer, gradients: Sequence[Gradient], variables: Sequence[keras.Variable]
) -> None:
    """Updates the variables by the sum of all replicas' gradients. Call it in a replica's context.

    Args:
      optimizer: of `summing_is_ours`.
      gradients: this replica's, of a loss that `optimizer.scale_loss` has scaled; None: not connected.
    """
    connected = [
        (dense(each, of), of) for each, of in zip(gradients, variables, strict=True) if each is not None
    ]
    summed = tf.distribute.get_replica_context().all_reduce("SUM", [gradient for gradient, _ in connected])
    optimizer.apply(summed, [variable for _, variable in connected])


def dense(gradient: tf.Tensor | tf.IndexedSlices, variable: keras.Variable) -> tf.Tensor:
    """A gradient of the variable's shape; rows of equal ids are added.

    Keras's Adam computes with whole tables anyway, so this costs no more memory than its moments.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])
