"""The signatures of an exported model, with clean-up and preprocessing inside and float32 predictions out."""

from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from pipeline.data.dataset.records import MODEL_INPUTS, PREPARED, RAW, SERVING_DEFAULT
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.preprocessing.requests import clean_requests
from pipeline.data.reading import parsing
from pipeline.data.schema.feature_types import LABEL_TASKS
from pipeline.data.schema.schema import Schema
from pipeline.exporting.raw_inputs import raw_names
from pipeline.training.tasks.registry import task_of

_Signature = Callable[..., Mapping[str, tf.Tensor]]


def signatures(
    model: keras.Model, preprocess: Preprocess, schema: Schema, *, portable: bool = False
) -> dict[str, _Signature]:
    """Returns graph functions by signature name.

    `serving_default` takes `examples`, string [batch], serialized tf.train.Examples without a label; `raw`
    takes each input feature by its name of `raw_names`, [batch, *shape]: numbers, or text as the raw data
    spell it (strings, points in time). `model_inputs` takes what `raw` does, and gives the result of
    preprocessing: see ModelInputs. `prepared` takes that result. All but `model_inputs` give the task's
    predictions, float32 [batch, …], by the name of its output.

    Args:
      portable: whether they are for other runtimes than TensorFlow's. `prepared` then takes float32 in place
        of bfloat16, and one row or more: the operations for requests without rows would cost time in every
        request.
    """
    task, names = task_of(schema.label), raw_names(schema)

    def cleaned(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return preprocess(clean_requests(dict(features), schema))

    def answer(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        if portable:
            logits = model(dict(inputs), training=False)
        else:
            rows = tf.shape(next(iter(inputs.values())))[0]
            padded = {name: _never_empty(values) for name, values in inputs.items()}
            logits = model(padded, training=False)[:rows]
        return {LABEL_TASKS[schema.label.task].output: task.answers(schema.label, inputs, logits)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")], autograph=False)
    def serving_default(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return answer(cleaned(tf.io.parse_example(examples, parsing.parsing_spec(schema, with_label=False))))

    @tf.function(input_signature=[_raw_spec(schema)], autograph=False)
    def raw(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return answer(cleaned({name: inputs[given] for name, given in names.items()}))

    @tf.function(input_signature=[_raw_spec(schema)], autograph=False)
    def model_inputs(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        found = cleaned({name: inputs[given] for name, given in names.items()})
        return {own_to_given.get(name, name): values for name, values in found.items()}

    # Sequences have the names of their features, so perhaps names that TensorFlow cannot accept.
    own_to_given = {name: names[name] for name in preprocess.inputs.sequences}
    given_to_own = {given: own for own, given in own_to_given.items()}

    @tf.function(input_signature=[_outputs_spec(model_inputs, portable=portable)], autograph=False)
    def prepared(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return answer({given_to_own.get(name, name): values for name, values in inputs.items()})

    return {SERVING_DEFAULT: serving_default, RAW: raw, MODEL_INPUTS: model_inputs, PREPARED: prepared}


def declared(schema: Schema) -> dict[str, dict[str, dict[str, list]]]:
    """Describes the signatures of a schema as JSON: name → `inputs` and `outputs` → name → [dtype, shape].

    A shape is a list with null for the batch's size.
    """
    label = schema.label
    output = tf.TensorSpec([None, *label.answer_shape], tf.float32)
    outputs = {LABEL_TASKS[label.task].output: described(output)}
    inputs = {
        SERVING_DEFAULT: {"examples": described(tf.TensorSpec([None], tf.string))},
        RAW: {name: described(spec) for name, spec in _raw_spec(schema).items()},
    }
    return {name: {"inputs": given, "outputs": outputs} for name, given in inputs.items()}


def described(spec: tf.TensorSpec | tf.Tensor) -> list:
    """Returns [dtype, shape], as JSON has them."""
    return [spec.dtype.name, spec.shape.as_list()]


def _never_empty(values: tf.Tensor) -> tf.Tensor:
    """Returns the values [rows, …], or one row of zeros where there is none.

    Without rows, a convolution that oneDNN fuses with the layers after it gives a wrong shape (TensorFlow
    2.21), and a layer that adds something to it fails.
    """
    is_empty = tf.cast(tf.shape(values)[0] == 0, tf.int32)
    return tf.pad(values, [[0, is_empty], *[[0, 0]] * (values.shape.rank - 1)])


def _raw_spec(schema: Schema) -> dict[str, tf.TensorSpec]:
    """Returns the named tensors that the `raw` signature takes."""
    names = raw_names(schema)
    return {
        names[feature.name]: tf.TensorSpec(
            [None, *feature.shape],
            tf.string if feature.is_text_in_requests else parsing.DTYPES[feature.dtype],
            name=names[feature.name],
        )
        for feature in schema.inputs
    }


def _outputs_spec(
    function: tf.types.experimental.PolymorphicFunction, *, portable: bool
) -> dict[str, tf.TensorSpec]:
    """Returns the specifications of a function's outputs, under their names."""

    def dtype(of: tf.DType) -> tf.DType:
        return tf.float32 if portable and of.is_floating else of

    outputs = function.get_concrete_function().structured_outputs
    return {name: tf.TensorSpec(each.shape, dtype(each.dtype), name=name) for name, each in outputs.items()}
