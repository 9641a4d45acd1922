"""What functions of tensors need before TensorFlow traces them."""

from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

F = TypeVar("F", bound=Callable)


def as_written(function: F) -> F:
    """Traces `function` as it stands, without AutoGraph.

    Nothing in the input pipeline branches or loops on a tensor in Python, and rewriting its source took
    3 of the 4 seconds before the first batch.
    """
    return tf.autograph.experimental.do_not_convert(function)


def apart(function: F) -> F:
    """A call of its own, not inlined, for a branch that is rarely taken.

    The runtime visits every operation of the branch that is not taken: 50 µs an image, where the branch holds
    the readers of all formats.
    """
    return tf.function(function, autograph=False, experimental_attributes={"_noinline": True})
