"""The last stage: a batch goes from the host's memory to the accelerator's."""

import tensorflow as tf

from pipeline.data.feed.speed import Consume


def copy_to(device: str) -> Consume:
    """Copies an element's tensors to `device`; where that is the host's CPU, inside its memory."""

    def to_accelerator(tensor: tf.Tensor) -> tf.Tensor:
        with tf.device(device):
            return tf.identity(tensor)

    def in_memory(tensor: tf.Tensor) -> tf.Tensor:
        # There `identity` copies nothing; text is not copied by training either.
        return tensor if tensor.dtype == tf.string else tf.raw_ops.DeepCopy(x=tensor)

    copied = in_memory if "CPU" in device.upper() else to_accelerator
    return lambda *element: tf.nest.map_structure(copied, element)
