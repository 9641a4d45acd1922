"""Floating-point operations of a model, counted in its graph.

    FLOPs of a training step = 3 × forward × examples

The backward pass computes two products of each one of the forward pass: for the gradient of its input, and
of its weights (Kaplan et al. 2020, section 2.1). Counted are matrix products and convolutions, two operations
a multiply-add; the rest (activations, normalisation, lookups in tables) is a hundredth of them in models that
keep an accelerator busy, and none of it runs on the matrix units that a peak is given for.
"""

import math
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

TRAINING = 3  # times the forward pass


def forward_flops(model: keras.Model) -> int | None:
    """Operations of the forward pass of one example; None where a loop hides how often it runs."""
    specs = [tf.TensorSpec((1, *each.shape[1:]), each.dtype) for each in model.inputs]
    if any(None in spec.shape for spec in specs):
        return None
    inputs = tf.nest.pack_sequence_as(model.input, specs)
    graph = tf.function(lambda batch: model(batch, training=False), autograph=False)
    return _of_graph(graph.get_concrete_function(inputs).graph)


def _of_graph(graph: tf.Graph) -> int | None:
    total = 0
    for operation in graph.get_operations():
        if operation.type in _LOOPS:
            return None
        if operation.type in _CALLS:
            inside = _of_graph(_called(graph, operation))
            if inside is None:
                return None
            total += inside
        count = _COUNTED.get(operation.type)
        total += count(operation) if count else 0
    return total


_LOOPS = ("While", "StatelessWhile")
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
    """Filters are [height, width, inputs of a group, outputs]; a depthwise one has a window a channel."""
    result, filters = operation.outputs[0].shape, operation.inputs[1].shape
    window = filters[:-2] if operation.type.startswith("Depthwise") else filters[:-1]
    return 2 * _size(result) * _size(window)


def _transposed_convolution(operation: tf.Operation) -> int:
    """Each number of its input is multiplied by all of a window: [height, width, outputs], of the filters."""
    _, filters, given = operation.inputs
    return 2 * _size(given.shape) * _size(filters.shape[:-1])


def _einsum(operation: tf.Operation) -> int:
    """A multiply-add for each combination of all indices."""
    terms = operation.get_attr("equation").decode().split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, operation.inputs, strict=True):
        for index, size in zip(_indices(term, len(tensor.shape)), tensor.shape, strict=True):
            sizes[index] = max(size, sizes.get(index, 1))
    return 2 * math.prod(sizes.values())


def _indices(term: str, rank: int) -> list[str]:
    """A name for each axis; those of `...` are counted from the last one, as they are broadcast."""
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
