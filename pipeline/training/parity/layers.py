"""Compares bfloat16 with float32, layer by layer.

Each layer of the bfloat16 model gets the exact inputs that its twin has in the float32 model. So an error is
the layer's own, and not that of layers before it. Layers of a model that is called as a layer are compared
one by one, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.report.comparison import Comparison, Difference, comparison, relative_error
from pipeline.training.engine.precision import Precision
from pipeline.training.parity.subject import Subject

_BFLOAT16 = Precision(policy="mixed_bfloat16", reason="to compare")
_EXAMPLES = 64  # few examples, because the activations of all layers are in memory together
# bfloat16 has 8 significant bits: each rounding is off by up to 2^-8. A layer that adds in float32, as matrix
# products do, rounds its inputs, its weights and its result. Where errors add up, or numbers cancel, it is
# off by more.
_ULP = 2.0**-8
_OUTPUTS, _GRADIENTS = "outputs", "gradients"
# Gradients also differ where rounding moves a unit across the kink of its ReLU. About 2^-8 of the units
# do this, and the norm of the change is the root of this share.
_TOLERANCES = {_OUTPUTS: 8 * _ULP, _GRADIENTS: 2 * _ULP**0.5}
# The whole model's logits, and each variable's gradient: for information only, because ReLU units that switch
# sides change gradients by more than rounding, without harm to training.
_WHOLE = {"logits": 0.1}
_SEED = 0
# Layers and operations that choose the largest of some numbers. Where two are nearly equal, rounding decides
# which one gets the whole gradient: that is harmless, and their gradients may differ by any amount.
_CHOOSING = ("Max", "GlobalMax")
_CAST = "Cast"  # the operation of keras.ops.cast, which has no public name

Inputs = Mapping[str, tf.Tensor]


def compare(subject: Subject) -> Comparison:
    """Each layer's outputs and gradients in bfloat16 and in float32, and the logits of the whole model."""
    inputs = subject.rows_of(subject.batches(1)[0])
    inputs = {name: values[:_EXAMPLES] for name, values in inputs.items()}
    exact, rounded = subject.model(), subject.model(_BFLOAT16)
    whole = _whole(exact, rounded, inputs)
    if _graph(exact) is None:
        return _summary("the whole model, no graph of layers, in bfloat16 against float32", [whole])
    found, passed_over = layer_differences(exact, rounded, inputs)
    left_out = f"; not compared: {_named(passed_over)}" if passed_over else ""
    return _summary(f"each layer in bfloat16 against float32{left_out}", [*found, whole])


def layer_differences(
    exact: keras.Model, rounded: keras.Model, inputs: Inputs
) -> tuple[list[Difference], list[str]]:
    """Compares every layer and operation that computes in floating point, in two models with the same graph.

    Returns:
      Their differences, and the names of those that cannot be compared by themselves.
    """
    before = exact.get_weights(), rounded.get_weights()
    passed_over: list[str] = []
    differences = [*_differences(exact, rounded, inputs, passed_over=passed_over)]
    exact.set_weights(before[0])  # restored, because batch normalizations move their statistics
    rounded.set_weights(before[1])
    return [each for each in differences if each.errors], passed_over


def _differences(
    exact: keras.Model, rounded: keras.Model, inputs: object, *, passed_over: list[str], prefix: str = ""
) -> Iterator[Difference]:
    """Compares the layers of two graphs, and those of models in them, whose names begin with `prefix`."""
    exact, rounded = _graph(exact), _graph(rounded)
    pairs, wanted = [], []
    for one, other in _paired(exact, rounded):
        if not _is_floating(one):
            continue
        if (tensors := _inputs_of(one, exact)) is None:
            passed_over.append(prefix + one.name)
            continue
        pairs.append((one, other))
        wanted.append(tensors)
    for (one, other), given in zip(pairs, _values(exact, wanted, inputs), strict=True):
        name = prefix + one.name
        if _graph(one) is None:
            yield _difference(name, one, other, given)
        else:
            yield from _differences(one, other, given, passed_over=passed_over, prefix=f"{name}/")


def _graph(operation: keras.Operation) -> keras.Model | None:
    """Returns the graph of layers that a model is; None for a layer, and for a model that is a class."""
    graph = getattr(operation, "_functional", operation)  # Keras (3.15) has no public way into a Sequential
    return graph if hasattr(graph, "operations") else None


def _paired(exact: keras.Model, rounded: keras.Model) -> Iterator[tuple[keras.Operation, keras.Operation]]:
    """Yields the operations of both graphs, without casts to float32 that only `rounded` needs."""
    others = iter(rounded.operations)
    for one in exact.operations:
        other = next(others)
        while type(other).__name__ == _CAST and type(one).__name__ != _CAST:
            other = next(others)
        yield one, other


def _summary(what: str, differences: Sequence[Difference]) -> Comparison:
    found = comparison("bfloat16", what, differences, advice="")
    names = _named(each.name for each in found.found)
    advice = f'Give dtype="float32" to {names} where the model is built.' if names else ""
    return comparison(found.name, found.what, differences, advice=advice)


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _whole(exact: keras.Model, rounded: keras.Model, inputs: Inputs) -> Difference:
    logits = [np.asarray(model(inputs, training=False), np.float64) for model in (rounded, exact)]
    return Difference(name="whole model", errors={"logits": relative_error(*logits)}, tolerances=_WHOLE)


def _is_floating(operation: keras.Operation) -> bool:
    """Returns whether it computes in floating point."""
    return not isinstance(operation, keras.layers.InputLayer) and all(
        "float" in each.dtype for each in tf.nest.flatten(operation.output)
    )


def _inputs_of(operation: keras.Operation, model: keras.Model) -> object | None:
    """Returns the tensors of the model that the operation gets, in the first place where it is used; None if
    that place is in another model.
    """
    tensors = operation.input
    if _graph(operation) is not None:  # its own inputs are not those that it is called with
        called = operation._inbound_nodes[0].arguments  # no public way (Keras 3.15)
        tensors = [*called.args, *called.kwargs.values()][0]
    try:
        keras.Model(model.input, tensors)
    except ValueError:
        return None
    return tensors


def _values(model: keras.Model, wanted: Sequence[object], inputs: object) -> list[object]:
    """The values that tensors have when the model computes, as it does in training."""
    outputs = {str(number): tensors for number, tensors in enumerate(wanted)}
    found = keras.Model(model.input, outputs)(inputs, training=True) if wanted else {}
    return [found[name] for name in outputs]


def _difference(name: str, exact: keras.Operation, rounded: keras.Operation, given: object) -> Difference:
    one, other = (_outputs_and_gradients(each, given) for each in (rounded, exact))
    compared = (_OUTPUTS,) if type(exact).__name__.startswith(_CHOOSING) else (_OUTPUTS, _GRADIENTS)
    errors = {
        key: max((relative_error(*pair) for pair in zip(one[key], other[key], strict=True)), default=0.0)
        for key in compared
        if other[key]
    }
    return Difference(name=name, errors=errors, tolerances=_TOLERANCES)


def _outputs_and_gradients(operation: keras.Operation, given: object) -> dict[str, list[np.ndarray]]:
    """Returns one layer's outputs, and gradients of inputs and weights for fixed random output gradients."""
    alone = keras.Model(operation.input, operation.output)
    inputs = tf.nest.map_structure(lambda spec, value: tf.cast(value, spec.dtype), operation.input, given)
    variables = [variable.value for variable in alone.trainable_variables]
    floating = [each for each in tf.nest.flatten(inputs) if each.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(floating)
        outputs = tf.nest.flatten(alone(inputs, training=True))
        draw = np.random.default_rng(_SEED)
        upstream = [tf.constant(draw.normal(size=each.shape), each.dtype) for each in outputs]
        total = tf.add_n(
            [tf.reduce_sum(tf.cast(a * b, tf.float32)) for a, b in zip(outputs, upstream, strict=True)]
        )
    gradients = tape.gradient(total, [*floating, *variables])
    return {_OUTPUTS: _arrays(outputs), _GRADIENTS: _arrays(gradients)}


def _arrays(tensors: Sequence[tf.Tensor | tf.IndexedSlices | None]) -> list[np.ndarray]:
    return [
        np.asarray(tf.cast(tf.convert_to_tensor(each), tf.float64)) for each in tensors if each is not None
    ]
