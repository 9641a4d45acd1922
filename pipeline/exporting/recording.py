"""Records requests: a model in memory answers batches of several sizes; its export must give the same
answers.
"""

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

# TensorFlow multiplies matrices in different ways for one row, a few and many, and the last bits differ. A
# client whose queue is empty sends a request without a row.
_SIZES = (0, 1, 7)

# Rounding errors of the narrowest type in which a layer computes; for float32 it is larger, because sums in
# another order differ by more.
_TOLERANCES = {"float32": 1e-5, "bfloat16": 8 * 2.0**-8, "float16": 8 * 2.0**-11}


def record(functions: Functions, examples: tf.Tensor, *, schema: Schema, model: keras.Model) -> Requests:
    """Records requests with all `examples` at once, and with the first few, through both signatures.

    Args:
      functions: the graphs of the model by signature, as `signatures` makes them; answers without a graph
        differ in their last bits.
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
        declared=signatures_lib.declared(schema, model),
        tolerance=tolerance(model),
        computed_by=computed_by(),
    )


def tolerance(model: keras.Model) -> float:
    """Returns how far two machines may differ: see Requests. Float64 counts as float32, the output's type."""
    computed_in = {layer.compute_dtype for layer in model._flatten_layers()}  # Keras (3.15) has no public way
    return max(_TOLERANCES.get(dtype, _TOLERANCES["float32"]) for dtype in computed_in)


def _recorded_calls(functions: Functions, examples: tf.Tensor, schema: Schema) -> Iterator[Call]:
    spec = parsing.parsing_spec(schema, with_label=False)
    for rows in sorted({*(size for size in _SIZES if size < len(examples)), len(examples)}):
        some = examples[:rows]
        columns = raw_inputs(tf.io.parse_example(some, spec), schema)
        for signature, given, inputs in ((SERVING_DEFAULT, some, {EXAMPLES: some}), (RAW, columns, columns)):
            outputs = functions[signature](given)
            yield Call(signature=signature, inputs=numpy_arrays(inputs), outputs=numpy_arrays(outputs))
