"""Batches of a strategy's replicas, from a function that makes those of a host."""

from collections.abc import Callable, Iterable

import tensorflow as tf

Make = Callable[[tf.distribute.InputContext], tf.data.Dataset]  # batches of one replica each


def distributed(strategy: tf.distribute.Strategy, make: Make) -> Iterable:
    """An iterable of batches, each with the shares of this host's replicas.

    On a single CPU it is the dataset itself: there is no device to copy batches to, and TensorFlow's way
    there takes 0.3 ms of CPU time a batch (2.21, measured: a twelfth of a step of `adult_wide_deep.py`).
    """
    if isinstance(strategy, tf.distribute.OneDeviceStrategy) and _is_cpu(strategy):
        return make(tf.distribute.InputContext())
    return strategy.distribute_datasets_from_function(make)


def _is_cpu(strategy: tf.distribute.Strategy) -> bool:
    return tf.DeviceSpec.from_string(strategy.extended.worker_devices[0]).device_type == "CPU"
