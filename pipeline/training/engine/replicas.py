"""What layers do differently on several replicas: each drops other units, all share their statistics.

Without this, Keras (3.15, measured) draws the same dropout mask on every replica, and BatchNormalization
keeps the moving statistics of replica 0 alone.
"""

from collections.abc import Callable

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
        for generator in layer._seed_generators:
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
