"""Asks a model in memory what its export must answer, in batches of several sizes."""

from collections.abc import Callable, Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.dataset.export_manifest import RAW, SERVING_DEFAULT
from pipeline.data.errors import InputError
from pipeline.data.reading import parsing
from pipeline.data.schema.schema import Schema
from pipeline.release import signatures as signatures_lib
from pipeline.release.infra import machine
from pipeline.release.infra.requests import EXAMPLES, Call, Requests
from pipeline.release.raw_inputs import raw_inputs

Functions = Mapping[str, Callable[..., Mapping[str, tf.Tensor]]]

# TensorFlow computes a product of matrices in other ways for one row, a few and many: each has bits of its
# own. A request without a row is what a client sends whose queue was empty.
_SIZES = (0, 1, 7)

# Roundings of the narrowest type that a layer computes in; float32 sums in another order differ by more.
_TOLERANCES = {"float32": 1e-5, "bfloat16": 8 * 2.0**-8, "float16": 8 * 2.0**-11}


def recorded(functions: Functions, examples: tf.Tensor, *, schema: Schema, model: keras.Model) -> Requests:
    """Requests of all `examples` at once, and of the first few, through both signatures.

    Args:
      functions: the graphs of the model by signature, as `signatures` makes them: eagerly computed, its
        answers have other bits.
      examples: serialized, string [rows].

    Raises:
      InputError: there are no examples.
    """
    if not len(examples):
        raise InputError(
            "requests to be recorded",
            received="no examples",
            expected="one or more",
            action="Take a holdout that has rows, or leave it to the golden examples.",
        )
    return Requests(
        calls=list(_calls(functions, examples, schema)),
        declared=signatures_lib.declared(schema),
        tolerance=tolerance(model),
        computed_by=machine.computed_by(),
    )


def tolerance(model: keras.Model) -> float:
    """How far two machines may be apart: see Requests. Float64 counts as float32, which it is told in."""
    computed_in = {layer.compute_dtype for layer in model._flatten_layers()}  # no public way (Keras 3.15)
    return max(_TOLERANCES.get(dtype, _TOLERANCES["float32"]) for dtype in computed_in)


def _calls(functions: Functions, examples: tf.Tensor, schema: Schema) -> Iterator[Call]:
    spec = parsing.parsing_spec(schema, with_label=False)
    for rows in sorted({*(size for size in _SIZES if size < len(examples)), len(examples)}):
        some = examples[:rows]
        yield _call(SERVING_DEFAULT, {EXAMPLES: some}, functions[SERVING_DEFAULT](some))
        given = raw_inputs(tf.io.parse_example(some, spec), schema)
        yield _call(RAW, given, functions[RAW](given))


def _call(signature: str, inputs: Mapping[str, tf.Tensor], outputs: Mapping[str, tf.Tensor]) -> Call:
    return Call(signature=signature, inputs=_arrays(inputs), outputs=_arrays(outputs))


def _arrays(tensors: Mapping[str, tf.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
