"""What replicas of one step share: sums over them, and layers that fit them.

Without `adapt_to_replicas`, Keras (3.15, measured) draws the same dropout mask on every replica, and
BatchNormalization keeps the moving statistics of replica 0 alone. A layer keeps the losses of all replicas in
one list: where replicas wait for each other within the model, as for shared statistics, a later replica
deletes the losses of an earlier one.
"""

import itertools
import re
import threading
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.random import seed_generator

# Odd, so that its multiples differ; large, so that replicas' seeds are far from those of other layers.
_SEED_STEP = 0x9E3779B1


def adapt_to_replicas(model: keras.Model, *, replicas: int) -> None:
    """Makes the model's layers fit for `replicas` replicas; call it before the model is traced."""
    if replicas == 1:
        return
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            _share_statistics(layer)
        layer._losses = _Losses()
        for generator in layer._seed_generators:
            _let_replicas_differ(generator)


# --- Random numbers that no layer's own generator draws.


def generator_of_run(*, seed: int, replicas: int) -> keras.random.SeedGenerator:
    """Makes a generator for draws of Keras that name none; call it under the model's strategy."""
    generator = keras.random.SeedGenerator(seed)
    if replicas > 1:
        _let_replicas_differ(generator)
    return generator


def drawing_from(generator: keras.random.SeedGenerator, step: Callable) -> Callable:
    """The step, in which `keras.random.normal(shape)` and the like draw from the generator.

    Keras (3.15) keeps one a thread, which no checkpoint holds; in a replica's thread, making it fails.
    """

    def drawn(*args: object) -> object:
        # Keras has no public way to it.
        global_state.set_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR, generator)
        return step(*args)

    return drawn


# Operations that draw random numbers and keep their state where nothing can save it: those of `tf.random`.
_STATEFUL = re.compile(
    r"Random(?!Dataset)\w*|Parameterized\w*|TruncatedNormal|Multinomial|Rng\w*|Stateful[URST]\w*"
)


def unsaved_draws(graph: tf.Graph) -> list[str]:
    """The names of operations in a graph that draw random numbers whose state no checkpoint can hold."""
    definition = graph.as_graph_def()
    # One by one: none needs to be held.
    nodes = itertools.chain(definition.node, *(each.node_def for each in definition.library.function))
    return [node.name for node in nodes if _STATEFUL.fullmatch(node.op)]


class _Losses(threading.local):
    """A layer's list of losses, one list for each replica, because each is traced in a thread of its own."""

    def __init__(self) -> None:
        self._own: list[tf.Tensor] = []

    def extend(self, losses: Sequence[tf.Tensor]) -> None:
        self._own.extend(losses)

    def clear(self) -> None:
        self._own.clear()

    def __getitem__(self, part: slice) -> list[tf.Tensor]:
        return self._own[part]


def _let_replicas_differ(generator: keras.random.SeedGenerator) -> None:
    generator.next = _of_replica(generator.next)


def _of_replica(draw: Callable) -> Callable:
    """Draws seeds [2] that differ between replicas; those of replica 0 are the layer's own."""

    def draw_of_replica(*args, **kwargs) -> tf.Tensor:
        seed = tf.convert_to_tensor(draw(*args, **kwargs))
        context = tf.distribute.get_replica_context()
        number = context.replica_id_in_sync_group if context else 0
        step = tf.cast(number, seed.dtype) * tf.constant(_SEED_STEP, seed.dtype)
        return seed + tf.stack([step, tf.zeros([], seed.dtype)])

    return draw_of_replica


# --- Statistics of BatchNormalization over the examples of all replicas.


def _share_statistics(layer: keras.layers.BatchNormalization) -> None:
    if type(layer)._moments is not keras.layers.BatchNormalization._moments:
        layer.synchronized = True  # a layer with its own `moments` knows what to do with it
        return
    of_replica = layer._moments

    def moments(inputs: tf.Tensor, mask: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        context = tf.distribute.get_replica_context()
        # Not in training, but for example in an export of the model.
        if context is None or context.num_replicas_in_sync == 1:
            return of_replica(inputs, mask)
        return _moments_of_all(inputs, mask, axes=layer._reduction_axes)

    layer._moments = moments


def _moments_of_all(
    inputs: tf.Tensor, mask: tf.Tensor | None, *, axes: Sequence[int]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (mean, variance), [channels] each, over all replicas. The variance is the mean square of the
    differences from the mean.

    Where replicas are synchronised, Keras (3.15) takes E(x²) − E(x)², which cancels in float32: for values
    around 1,000 with a deviation of 0.1 it gives 0 to 0.06 instead of 0.01. If there is a mask, Keras also
    sums over only one replica.

    Args:
      inputs: float32 [batch, …], of this replica.
      mask: bool [batch, …], without the last axis: False where an element does not count; None: all count.
      axes: all axes except that of the channels.
    """
    if mask is None:
        sums = tf.reduce_sum(inputs, axes)
        count = tf.fill(tf.shape(sums), tf.cast(tf.size(inputs) // tf.size(sums), inputs.dtype))
    else:
        counted = tf.broadcast_to(tf.cast(mask, tf.bool)[..., None], tf.shape(inputs))
        inputs = tf.where(counted, inputs, 0.0)
        sums, count = tf.reduce_sum(inputs, axes), tf.reduce_sum(tf.cast(counted, inputs.dtype), axes)
    total, count = tf.unstack(sum_over_replicas(tf.stack([sums, count])))
    mean = tf.math.divide_no_nan(total, count)
    shape = [1 if axis in axes else -1 for axis in range(inputs.shape.rank)]
    # Around the mean the sum of squares is least, so no gradient goes through it.
    off = inputs - tf.reshape(tf.stop_gradient(mean), shape)
    if mask is not None:
        off = tf.where(counted, off, 0.0)
    squares = sum_over_replicas(tf.reduce_sum(tf.square(off), axes))
    return mean, tf.math.divide_no_nan(squares, count)


# --- Sums over replicas. TensorFlow's `ReplicaContext.all_reduce` wraps the sum in a custom gradient, which
# searches for variables on which its result depends: through the sum, it searches the whole graphs of the
# other replicas. With shared statistics, tracing time is then quadratic in the depth (2.21, two replicas,
# measured: 10, 20, 40 layers take 4, 16 and 94 s of CPU).


def sum_over_replicas(value: tf.Tensor) -> tf.Tensor:
    """The sum of all replicas' tensors, with its gradient; call it in a replica's context, on all
    replicas.
    """
    if _sums_natively():
        return tf.distribute.get_replica_context().all_reduce("SUM", value)

    @tf.custom_gradient
    def summed(own: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        (whole,) = sums_without_gradient([own])
        return whole, sum_over_replicas  # the gradient of a sum over all replicas is again such a sum

    return summed(value)


def sums_without_gradient(values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The sums of all replicas' tensors; no gradient is taken of them."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1 or not values:
        return list(values)
    if _sums_natively():
        return context.all_reduce("SUM", list(values))
    # The search for variables ends at a tensor without a gradient. A tensor that replicas share would only
    # count once.
    return list(context.merge_call(_summed, args=tuple(map(tf.stop_gradient, values))))


def gathered(ids: tf.Tensor) -> tf.Tensor:
    """Whole numbers of all replicas' examples, int32 [replicas · batch], from those of one, int32 [batch].

    They are below 2^24, and all replicas have batches of one size.
    """
    context = tf.distribute.get_replica_context()
    replicas = context.num_replicas_in_sync
    if replicas == 1:
        return ids
    number = context.replica_id_in_sync_group
    own = tf.one_hot(number, replicas)[:, None] * tf.cast(ids, tf.float32)  # (replicas, batch)
    [whole] = sums_without_gradient([own])
    return tf.cast(tf.reshape(whole, [-1]), ids.dtype)


def gathered_over_replicas(values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Joins each of the tensors over all replicas, along the first axis; without a gradient."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return list(values)
    if _sums_natively():
        return [context.all_gather(value, axis=0) for value in values]
    return list(context.merge_call(_gathered, args=tuple(map(tf.stop_gradient, values))))


def _gathered(strategy: tf.distribute.Strategy, *values: tf.distribute.DistributedValues) -> list[tf.Tensor]:
    return [strategy.gather(value, axis=0) for value in values]


def _sums_natively() -> bool:
    """Returns whether replicas can sum without `merge_call`, which joins their graphs; on a TPU they can."""
    is_tpu = isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
    return is_tpu or tf.__internal__.distribute.strategy_supports_no_merge_call()


def _summed(strategy: tf.distribute.Strategy, *values: tf.distribute.DistributedValues) -> list:
    # A worker with one device has plain tensors.
    pairs = [(value, value.device if isinstance(value, tf.Tensor) else value) for value in values]
    return strategy.extended.batch_reduce_to("SUM", pairs)
