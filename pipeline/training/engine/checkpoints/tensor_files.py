"""Arrays in TensorFlow's checkpoint files: `variables.index` and `variables.data-00000-of-00001`.

`tf.train.load_checkpoint` reads them without anything of this project.
"""

import pathlib
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

_PREFIX = "variables"


def save(directory: pathlib.Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes the arrays; raises tf.errors.OpError where the disk takes no more."""
    with tf.device("CPU:0"):
        tf.raw_ops.SaveV2(
            prefix=str(directory / _PREFIX),
            tensor_names=list(arrays),
            shape_and_slices=[""] * len(arrays),
            tensors=list(arrays.values()),
        )


def load(directory: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of sound files, by name."""
    reader = tf.train.load_checkpoint(str(directory / _PREFIX))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
