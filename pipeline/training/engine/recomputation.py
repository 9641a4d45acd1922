"""Layers whose insides are not kept for the backward pass, but computed once more there.

Between forward and backward pass only the layer's inputs and outputs stay in memory. Both times the layer
gets the same values of all its variables: dropout draws the same masks, and moving statistics change once.

Keras's own `RematScope` (3.15 on TensorFlow 2.21, tried) does not help: in a graph it refuses each layer that
is called with an argument by name, such as `training`.
"""

import contextlib
import copy
import dataclasses
import fnmatch
import math
import threading
from collections.abc import Callable, Iterator, Sequence

import keras
import tensorflow as tf
from keras.src.backend.common import get_autocast_scope, global_state
from keras.src.backend.common.variables import AutocastScope

from pipeline.base.errors import InputError
from pipeline.base.values import require_matches
from pipeline.training.engine import rows

NOTHING_AGAIN = contextlib.nullcontext()

_KEY = "--config.train.remat"
_CALL_CONTEXT = "current_call_ctx"  # where Keras (3.15) keeps `training` during a call
_NOTES = ("_keras_mask", "_keras_logits")  # what Keras notes on a tensor


def layers_of(model: keras.Model, patterns: Sequence[str]) -> list[keras.layers.Layer]:
    """Returns the outermost layers whose names fit a pattern, such as `block_*`.

    Raises:
      InputError: a pattern fits no layer.
    """
    found, names = [], set()
    waiting = [model]
    while waiting and patterns:
        for layer in waiting.pop()._flatten_layers(include_self=False, recursive=False):
            names.add(layer.name)
            is_chosen = any(fnmatch.fnmatchcase(layer.name, each) for each in patterns)
            (found if is_chosen else waiting).append(layer)
    require_matches(patterns, sorted(names), key="train.remat", kind="layer")
    return list({id(each): each for each in found}.values())


def of(model: keras.Model, patterns: Sequence[str]) -> contextlib.AbstractContextManager:
    """What stands around each call of `model`, so that layers keep nothing of their insides.

    Raises:
      InputError: a pattern fits no layer, or one with a table that the model's optimizer updates by rows.
    """
    layers = layers_of(model, patterns)
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    for layer in layers:
        if tables := [each.path for each in layer.trainable_variables if rows.is_by_rows(optimizer, each)]:
            raise InputError(
                _KEY,
                received=f"the layer {layer.name!r} with the table {tables[0]}, which is updated by rows",
                expected="layers without such tables: a gather keeps only ids for the backward pass",
                action="Choose layers behind it.",
            )
    return Recomputation(layers) if layers else NOTHING_AGAIN


class Recomputation(contextlib.AbstractContextManager):
    """Has layers keep nothing of their insides where the model is called within `with`, in the same thread.

    Elsewhere, as in an evaluation or an export, they do what they did.
    """

    def __init__(self, layers: Sequence[keras.layers.Layer]) -> None:
        self._here = threading.local()  # each replica is traced in a thread of its own
        self._faults: list[InputError] = []
        for layer in layers:
            layer.call = self._switched(layer.call, _recomputed(layer, layer.call, self._faults))

    def _switched(self, kept: Callable, recomputed: Callable) -> Callable:
        return lambda *args, **kwargs: (recomputed if self._is_on() else kept)(*args, **kwargs)

    def _is_on(self) -> bool:
        return getattr(self._here, "is_on", False)

    def __enter__(self) -> None:
        self._here.is_on = True

    def __exit__(self, *error: object) -> None:
        self._here.is_on = False
        if self._faults:
            raise self._faults.pop()


def _recomputed(layer: keras.layers.Layer, call: Callable, faults: list[InputError]) -> Callable:
    """The layer's call, whose gradient calls it again.

    Args:
      faults: receives what is to be raised after the model's call: Keras would hide its message within one.
    """

    def recomputed(*args: object, **kwargs: object) -> object:
        again = _Call(layer, call, (args, kwargs), faults)
        done: list[_Done] = []

        @tf.custom_gradient
        def kept(*given: tf.Tensor) -> tuple[list[tf.Tensor], Callable]:
            done.append(again(given))

            def gradient(*upstream: tf.Tensor, variables: Sequence[tf.Variable] = ()) -> list:
                if variables:
                    raise _not_its_own(layer, ", ".join(each.name for each in variables))
                return again.gradients(given, upstream)

            return done[0].tensors, gradient

        tensors = kept(*again.tensors)
        return again.finished(done[0], tensors)

    return recomputed


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Done:
    """What a call gave: its structure, its tensors and then its losses; and its variables' new values."""

    structure: object
    places: tuple[int, ...]  # of tensors in the structure; losses follow them
    tensors: list[tf.Tensor]
    updates: Sequence[tuple[keras.Variable, tf.Tensor]]


class _Call:
    """A call of a layer as a function of tensors: those of its arguments, then its own weights."""

    def __init__(
        self, layer: keras.layers.Layer, call: Callable, arguments: tuple, faults: list[InputError]
    ) -> None:
        self._layer, self._call, self._arguments, self._faults = layer, call, arguments, faults
        leaves = tf.nest.flatten(arguments)
        self._places = [place for place, each in enumerate(leaves) if isinstance(each, tf.Tensor)]
        self._weights = layer.trainable_variables
        self.tensors = [*(leaves[each] for each in self._places), *map(_value, self._weights)]
        self._notes = [_notes(each) for each in self.tensors]
        self._state: dict[int, tf.Tensor] = {}  # values of other variables, as the first call found them
        # Keras has no public way to what stands around a call: `training`, and the dtype of its weights.
        self._context = copy.copy(global_state.get_global_attribute(_CALL_CONTEXT))
        autocast = get_autocast_scope()
        self._dtype = autocast.dtype if autocast else None

    def __call__(self, given: Sequence[tf.Tensor]) -> _Done:
        inputs, weights = given[: len(self._places)], given[len(self._places) :]
        leaves = tf.nest.flatten(self._arguments)
        for place, tensor, notes in zip(self._places, inputs, self._notes, strict=False):
            leaves[place] = _noted(tensor, notes)
        args, kwargs = tf.nest.pack_sequence_as(self._arguments, leaves)
        mapping = list(zip(self._weights, weights, strict=True))
        with _Values(mapping, self._state) as values:
            structure = self._call(*args, **kwargs)
        flat = tf.nest.flatten(structure)
        places = tuple(place for place, each in enumerate(flat) if isinstance(each, tf.Tensor))
        tensors = [*(flat[each] for each in places), *values.losses]
        if values.of_others:
            self._faults.append(_not_its_own(self._layer, ", ".join(values.of_others)))
        return _Done(structure=structure, places=places, tensors=tensors, updates=values.updates)

    def finished(self, done: _Done, tensors: Sequence[tf.Tensor]) -> object:
        """Gives the layer's output, with `tensors` in it, and hands on what the call has changed."""
        flat = tf.nest.flatten(done.structure)
        for place, tensor in zip(done.places, tensors, strict=False):
            flat[place] = _noted(tensor, _notes(flat[place]))
        self._layer.add_loss(list(tensors[len(done.places) :]))
        for variable, value in done.updates:
            variable.assign(value)
        return tf.nest.pack_sequence_as(done.structure, flat)

    def gradients(self, given: Sequence[tf.Tensor], upstream: Sequence[tf.Tensor]) -> list:
        """Calls the layer again; returns the gradient of each tensor given, None where there is none."""
        upstream = [each if each is None else tf.convert_to_tensor(each) for each in upstream]
        inputs, weights = given[: len(self._places)], given[len(self._places) :]
        given = [*_not_before(upstream, inputs), *weights]
        with self._around(), tf.GradientTape() as tape:
            tape.watch([each for each in given if each.dtype.is_floating])
            tensors = self(given).tensors
        pairs = [
            (tensor, gradient)
            for tensor, gradient in zip(tensors, upstream, strict=True)
            if tensor.dtype.is_floating and gradient is not None
        ]
        found = tape.gradient(
            [tensor for tensor, _ in pairs], given, output_gradients=[gradient for _, gradient in pairs]
        )
        return [tf.convert_to_tensor(each) if isinstance(each, tf.IndexedSlices) else each for each in found]

    @contextlib.contextmanager
    def _around(self) -> Iterator[None]:
        outside = global_state.get_global_attribute(_CALL_CONTEXT)
        global_state.set_global_attribute(_CALL_CONTEXT, copy.copy(self._context))
        try:
            with AutocastScope(self._dtype), keras.name_scope(self._layer.name):
                yield
        finally:
            global_state.set_global_attribute(_CALL_CONTEXT, outside)


class _Values(keras.StatelessScope):
    """Gives a layer's variables their values, and keeps what the layer assigns to them.

    Args:
      state: values of variables that are not trained. A first call adds them; a second finds them here.
    """

    def __init__(
        self,
        weights: Sequence[tuple[keras.Variable, tf.Tensor]],
        state: dict[int, tf.Tensor],
    ) -> None:
        super().__init__(weights, collect_losses=True, initialize_variables=False)
        self._state = state
        self.of_others: list[str] = []  # names of weights that were read, but not given
        self._assigned: dict[int, keras.Variable] = {}

    def get_current_value(self, variable: keras.Variable) -> tf.Tensor:
        known = super().get_current_value(variable)
        if known is not None:
            return known
        if variable.trainable:
            self.of_others.append(variable.path)
        if id(variable) not in self._state:
            self._state[id(variable)] = _value(variable)
        return self._state[id(variable)]

    def add_update(self, update: tuple[keras.Variable, tf.Tensor]) -> None:
        super().add_update(update)
        self._assigned[id(update[0])] = update[0]

    @property
    def updates(self) -> list[tuple[keras.Variable, tf.Tensor]]:
        return [(each, self.state_mapping[key]) for key, each in self._assigned.items()]


def _value(variable: keras.Variable) -> tf.Tensor:
    # Its `value` would have the dtype in which the layer computes.
    return tf.convert_to_tensor(variable._value)


def _not_before(upstream: Sequence[tf.Tensor | None], tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The same tensors, but not before the gradients are there. Else a compiler may see that the layer
    computes the same twice, and keep it after all.

    The values are the same bits, except where a gradient is not finite: then a step is bad anyway.
    """
    first = [tf.reshape(each, [-1])[:1] for each in upstream if each is not None and each.dtype.is_floating]
    # No compiler may take this for true: it depends on the number.
    ready = tf.reduce_all([tf.reduce_all(tf.math.is_finite(each)) for each in first])
    return [
        tf.where(ready, each, tf.cast(math.nan if each.dtype.is_floating else 0, each.dtype))
        for each in tensors
    ]


def _notes(tensor: tf.Tensor) -> dict[str, object]:
    return {name: getattr(tensor, name) for name in _NOTES if hasattr(tensor, name)}


def _noted(tensor: tf.Tensor, notes: dict[str, object]) -> tf.Tensor:
    for name, value in notes.items():
        setattr(tensor, name, value)
    return tensor


def _not_its_own(layer: keras.layers.Layer, weights: str) -> InputError:
    return InputError(
        _KEY,
        received=f"the layer {layer.name!r}, which uses weights that are not its own: {weights}",
        expected="layers that use only weights of their own",
        action="Choose a layer around it, or leave it out.",
    )
