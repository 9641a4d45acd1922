"""What layers do differently on several replicas: each drops other units, all share their statistics.

Without this, Keras (3.15, measured) draws the same dropout mask on every replica, and BatchNormalization
keeps the moving statistics of replica 0 alone. A layer keeps the losses of its outputs in one list: where
replicas wait for each other within the model, as for shared statistics, the later one deletes the earlier's.
"""

import threading
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

# Odd, so that its multiples differ; large, so that replicas' seeds are far from those of other layers.
_SEED_STEP = 0x9E3779B1


def adapt(model: keras.Model, *, replicas: int) -> None:
    """Makes the model's layers fit for `replicas` replicas; call it before the model is traced."""
    if replicas == 1:
        return
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = True
        layer._losses = _Losses()
        for generator in layer._seed_generators:
            generator.next = _of_replica(generator.next)


class _Losses(threading.local):
    """A layer's list of losses, one for each replica: each is traced in a thread of its own."""

    def __init__(self) -> None:
        self._own: list[tf.Tensor] = []

    def extend(self, losses: Sequence[tf.Tensor]) -> None:
        self._own.extend(losses)

    def clear(self) -> None:
        self._own.clear()

    def __getitem__(self, part: slice) -> list[tf.Tensor]:
        return self._own[part]


def _of_replica(draw: Callable) -> Callable:
    """Draws seeds [2] that differ between replicas; those of replica 0 are the layer's own."""

    def draw_of_replica(*args, **kwargs) -> tf.Tensor:
        seed = tf.convert_to_tensor(draw(*args, **kwargs))
        context = tf.distribute.get_replica_context()
        number = context.replica_id_in_sync_group if context else 0
        step = tf.cast(number, seed.dtype) * tf.constant(_SEED_STEP, seed.dtype)
        return seed + tf.stack([step, tf.zeros([], seed.dtype)])

    return draw_of_replica
