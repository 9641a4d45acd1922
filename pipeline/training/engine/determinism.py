"""Runs of the same bits: TensorFlow's own switch, and a clock that it allows."""

import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf


def enable(strategy: tf.distribute.Strategy) -> None:
    """Has TensorFlow compute the same bits each time, or refuse an operation that cannot.

    On a CPU it changes no bit of our models (2.21, measured); on a GPU it chooses slower algorithms; on a TPU
    there is nothing to choose. It holds for the whole process, and cannot be taken back.
    """
    if not isinstance(strategy, tf.distribute.TPUStrategy):
        tf.config.experimental.enable_op_determinism()


def clock(strategy: tf.distribute.Strategy, *, is_deterministic: bool) -> Callable[[], tf.Tensor]:
    """A clock for a graph: seconds, float64 []."""
    forbidden = is_deterministic and not isinstance(strategy, tf.distribute.TPUStrategy)
    return timestamp if forbidden else tf.timestamp


def timestamp() -> tf.Tensor:
    """Seconds, float64 [], read when the graph comes by; as `tf.timestamp`, which determinism forbids."""
    return tf.ensure_shape(tf.numpy_function(_now, [], tf.float64), [])


def _now() -> np.float64:
    return np.float64(time.time())
