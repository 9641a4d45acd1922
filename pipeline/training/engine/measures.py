"""Floating-point operations of a model, counted in its graph.

    FLOPs of a training step = 3 × forward × examples

For each product of the forward pass, the backward pass computes two: the gradients of its input and of its
weights (Kaplan et al. 2020, section 2.1). Only matrix products and convolutions are counted, as two
operations for each multiply-add. The rest (activations, normalisation, lookups in tables) is a hundredth of
them in models that keep an accelerator busy. It does not run on the matrix units, for which the peak is
given.
"""

import math
import os
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from pipeline.base import machine

TRAINING = 3  # FLOPs of a training step, as a multiple of the forward pass


def forward_flops(model: keras.Model) -> int | None:
    """Operations of one example's forward pass; None if the rounds of a loop or the size of a product are not
    known.
    """
    specs = [tf.TensorSpec((1, *each.shape[1:]), each.dtype) for each in model.inputs]
    if any(None in spec.shape for spec in specs):
        return None
    inputs = tf.nest.pack_sequence_as(model.input, specs)
    graph = tf.function(lambda batch: model(batch, training=False), autograph=False)
    return flops_of(graph.get_concrete_function(inputs).graph)


def flops_of(graph: tf.Graph) -> int | None:
    """Operations of a graph; None where a loop hides how often it runs, or a size depends on data."""
    total = 0
    for operation in graph.get_operations():
        if operation.type in LOOPS:
            return None
        if operation.type in _CALLS:
            inside = flops_of(_called(graph, operation))
            if inside is None:
                return None
            total += inside
        count = _COUNTED.get(operation.type)
        if count:
            if not all(each.shape.is_fully_defined() for each in (*operation.inputs, *operation.outputs)):
                return None
            total += count(operation)
    return total


LOOPS = ("While", "StatelessWhile")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def _called(graph: tf.Graph, operation: tf.Operation) -> tf.Graph:
    # The library holds the graph of a function that Python traced: TensorFlow 2.21 has no public way to it.
    name = operation.get_attr("f").name
    return graph._get_function(name).graph


def _matrix_product(operation: tf.Operation) -> int:
    left, result = operation.inputs[0].shape, operation.outputs[0].shape
    transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
    return 2 * _size(result) * left[-2 if transposed else -1]


def _convolution(operation: tf.Operation) -> int:
    """Filters are [height, width, inputs of a group, outputs]; a depthwise one has one window for each
    channel.
    """
    result, filters = operation.outputs[0].shape, operation.inputs[1].shape
    window = filters[:-2] if operation.type.startswith("Depthwise") else filters[:-1]
    return 2 * _size(result) * _size(window)


def _transposed_convolution(operation: tf.Operation) -> int:
    """Each number of the input is multiplied by a whole window of the filters: [height, width, outputs]."""
    _, filters, given = operation.inputs
    return 2 * _size(given.shape) * _size(filters.shape[:-1])


def _einsum(operation: tf.Operation) -> int:
    """One multiply-add for each combination of all indices."""
    terms = operation.get_attr("equation").decode().split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, operation.inputs, strict=True):
        for index, size in zip(_indices(term, len(tensor.shape)), tensor.shape, strict=True):
            sizes[index] = max(size, sizes.get(index, 1))
    return 2 * math.prod(sizes.values())


def _indices(term: str, rank: int) -> list[str]:
    """A name for each axis. The axes of `...` are counted from the last one, because they are broadcast."""
    before, dots, after = term.partition("...")
    more = rank - len(before) - len(after) if dots else 0
    return [*before, *(f"...{number}" for number in reversed(range(more))), *after]


def _size(shape: tf.TensorShape) -> int:
    return math.prod(shape)


_COUNTED: Mapping[str, Callable[[tf.Operation], int]] = {
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _matrix_product),
    **dict.fromkeys(("Conv2D", "Conv3D", "DepthwiseConv2dNative"), _convolution),
    **dict.fromkeys(("Conv2DBackpropInput", "Conv3DBackpropInputV2"), _transposed_convolution),
    "Einsum": _einsum,
}


# --- The device of a run.


def accelerator_of(strategy: tf.distribute.Strategy) -> str:
    """Returns the device on which the strategy computes: the name of a GPU, the type of a TPU, or `CPU`.

    All GPUs of a run are assumed to be like the first.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        # A TPU VM sets this variable; TensorFlow's device names do not tell the generation.
        return os.environ.get("TPU_ACCELERATOR_TYPE", "TPU")
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return "CPU"
    return tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")


# --- Peaks of memory: what this process took of the host's, and TensorFlow of the accelerators'.


def memory_peaks() -> dict[str, float]:
    """MB (10⁶ bytes) since the process began; `device_peak_mb` is the peak of the GPU that held most, if
    there is one.
    """
    host = machine.memory_bytes("VmHWM") / 1e6
    gpus = range(len(tf.config.list_physical_devices("GPU")))
    device = [tf.config.experimental.get_memory_info(f"GPU:{index}")["peak"] / 1e6 for index in gpus]
    return {"host_peak_mb": round(host, 1), **({"device_peak_mb": max(device)} if device else {})}
