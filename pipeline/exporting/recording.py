"""Records requests: a model in memory answers batches of several sizes, as its export must."""

from collections.abc import Callable, Iterator, Mapping

import keras
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.records import RAW, SERVING_DEFAULT
from pipeline.data.reading import parsing
from pipeline.data.schema.schema import Schema
from pipeline.exporting import signatures as signatures_lib
from pipeline.exporting.raw_inputs import raw_inputs
from pipeline.exporting.requests import EXAMPLES, Call, Requests, computed_by, numpy_arrays

Functions = Mapping[str, Callable[..., Mapping[str, tf.Tensor]]]

# TensorFlow computes a product of matrices in other ways for one row, a few and many: each has bits of its
# own. A client whose queue is empty sends a request without a row.
_SIZES = (0, 1, 7)

# Roundings of the narrowest type that a layer computes in; float32 sums in another order differ by more.
_TOLERANCES = {"float32": 1e-5, "bfloat16": 8 * 2.0**-8, "float16": 8 * 2.0**-11}


def record(functions: Functions, examples: tf.Tensor, *, schema: Schema, model: keras.Model) -> Requests:
    """Records requests with all `examples` at once, and with the first few, through both signatures.

    Args:
      functions: the graphs of the model by signature, as `signatures` makes them: eager answers have other
        bits.
      examples: serialized, string [rows].

    Raises:
      InputError: there are no examples.
    """
    if not len(examples):
        raise InputError(
            "requests to be recorded",
            received="no examples",
            expected="one or more",
            action="Take a holdout that has rows, or use the golden examples.",
        )
    return Requests(
        calls=list(_recorded_calls(functions, examples, schema)),
        declared=signatures_lib.declared(schema),
        tolerance=tolerance(model),
        computed_by=computed_by(),
    )


def tolerance(model: keras.Model) -> float:
    """Returns how far two machines may differ: see Requests. Float64 counts as float32, the output's type."""
    computed_in = {layer.compute_dtype for layer in model._flatten_layers()}  # no public way (Keras 3.15)
    return max(_TOLERANCES.get(dtype, _TOLERANCES["float32"]) for dtype in computed_in)


def _recorded_calls(functions: Functions, examples: tf.Tensor, schema: Schema) -> Iterator[Call]:
    spec = parsing.parsing_spec(schema, with_label=False)
    for rows in sorted({*(size for size in _SIZES if size < len(examples)), len(examples)}):
        some = examples[:rows]
        columns = raw_inputs(tf.io.parse_example(some, spec), schema)
        for signature, given, inputs in ((SERVING_DEFAULT, some, {EXAMPLES: some}), (RAW, columns, columns)):
            outputs = functions[signature](given)
            yield Call(signature=signature, inputs=numpy_arrays(inputs), outputs=numpy_arrays(outputs))
