"""What the layers of a model take of the memory: their weights, and their outputs in a forward pass."""

import dataclasses
import math
import re
from collections.abc import Collection, Iterator, Sequence

import keras
import tensorflow as tf

from pipeline.training.engine import recomputation

_NUMBER = re.compile(r"_\d+$")
_COUNTED = re.compile(r"_?\d+$")
# Operations that hand on what is there already, or numbers that do not depend on the batch.
_NO_OUTPUTS = (
    "Cast",
    "Const",
    "ExpandDims",
    "Identity",
    "IdentityN",
    "NoOp",
    "Placeholder",
    "ReadVariableOp",
)
_NO_OUTPUTS += ("Reshape", "Squeeze", "StatefulPartitionedCall", "PartitionedCall")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer: its weights, and what its operations put out for one example, in bytes."""

    name: str
    weights: int
    outputs: int


class Outputs:
    """The outputs of all operations of a model's forward pass, for one example, in bytes."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._operations = list(_forward(model))

    def by_layer(self) -> list[Layer]:
        """The innermost layers, those of one name as one, and what the model computes outside of them."""
        weights: dict[str, int] = {}
        for layer in self._model._flatten_layers(include_self=False):
            own = [each for each in layer.weights if each.path.rpartition("/")[0].endswith(layer.name)]
            weights[layer.name] = weights.get(layer.name, 0) + bytes_of(own)
        outputs: dict[str, int] = {}
        for operation in self._operations:
            name = layer_of(operation.name, weights)
            outputs[name] = outputs.get(name, 0) + _size(operation)
        names = dict.fromkeys((*weights, *outputs))
        found = [
            Layer(name=name, weights=weights.get(name, 0), outputs=outputs.get(name, 0)) for name in names
        ]
        return [each for each in found if each.weights or each.outputs]

    def not_kept(self, patterns: Sequence[str]) -> int:
        """What need not be kept if the layers of these patterns are computed again: what is used only within
        them, except for that of the largest, which is there while it is computed again.
        """
        names = {each.name for each in recomputation.layers_of(self._model, patterns)}
        inside = dict.fromkeys(names, 0)
        for operation in self._operations if names else ():
            name = layer_of(operation.name, names)
            consumers = [each for output in operation.outputs for each in output.consumers()]
            if name in names and all(layer_of(each.name, names) == name for each in consumers):
                inside[name] += _size(operation)
        return sum(inside.values()) - max(inside.values(), default=0)

    def best_pattern(self) -> tuple[str, int]:
        """The pattern of layers that need not keep most, and how much; empty and 0 where none helps."""
        groups: dict[str, int] = {}
        for layer in self._model._flatten_layers(include_self=False):
            if layer._layers:
                name = _COUNTED.sub("", layer.name)
                groups[name] = groups.get(name, 0) + 1
        patterns = [f"{name}*" for name, count in groups.items() if count > 1]
        return max(
            ((each, self.not_kept([each])) for each in patterns), key=lambda found: found[1], default=("", 0)
        )


def _forward(model: keras.Model) -> Iterator[tf.Operation]:
    specs = [tf.TensorSpec((1, *each.shape[1:]), each.dtype) for each in model.inputs]
    if any(None in spec.shape for spec in specs):
        return
    inputs = tf.nest.pack_sequence_as(model.input, specs)
    graph = tf.function(lambda batch: model(batch, training=True), autograph=False)
    for operation in operations_of(graph.get_concrete_function(inputs).graph):
        if operation.type not in _NO_OUTPUTS:
            yield operation


def _size(operation: tf.Operation) -> int:
    known = [each for each in operation.outputs if each.shape.is_fully_defined() and each.dtype.size]
    return sum(each.shape.num_elements() * each.dtype.size for each in known)


def operations_of(graph: tf.Graph) -> Iterator[tf.Operation]:
    """All operations, those of called functions too."""
    for operation in graph.get_operations():
        yield operation
        if operation.type in ("PartitionedCall", "StatefulPartitionedCall"):
            yield from operations_of(graph._get_function(operation.get_attr("f").name).graph)


def layer_of(scope: str, names: Collection[str]) -> str:
    """The layer of a scope, or its first part: TensorFlow numbers each name, `dense_1` → `dense_1_2`.

    So `dense_1` is first looked for as `dense`, beside which Keras calls another layer `dense_1`.
    """
    for part in reversed(scope.split("/")):
        for name in (_NUMBER.sub("", part), part):
            if name in names:
                return name
    return scope.split("/")[0]


def bytes_of(variables: Sequence[keras.Variable]) -> int:
    return sum(math.prod(each.shape) * tf.as_dtype(each.dtype).size for each in variables)
