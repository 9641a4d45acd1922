"""The signatures of an exported model, with clean-up and preprocessing inside and float32 predictions out."""

import itertools
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from pipeline.data.dataset.records import EVALUATED, MODEL_INPUTS, PREPARED, RAW, SERVING_DEFAULT, UNREAD
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.preprocessing.requests import clean_requests, read_from_text, unread
from pipeline.data.reading import parsing
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
    preprocessing: see ModelInputs. `prepared` takes that result. All but `model_inputs` give what the task
    serves, [batch, …] each, such as predictions by the name of its output. Where numbers or dates come as
    text, `unread` takes what `raw` does, and gives `columns`: see requests.unread. Where metrics do not
    follow from the predictions, `evaluated` takes what `raw` does and the labels, int32 [batch], as
    `labels_name`; it gives what the task's metrics take.

    Args:
      portable: whether they are for other runtimes than TensorFlow's. `prepared` then takes float32 in place
        of bfloat16, and one row or more: the operations for requests without rows would cost time in every
        request.
    """
    names = raw_names(schema)
    part, task = task_of(schema.label).split(model)

    def cleaned(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return preprocess(clean_requests(dict(features), schema))

    def logits_of(inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if portable:
            return part(dict(inputs), training=False)
        rows = tf.shape(next(iter(inputs.values())))[0]
        padded = {name: _never_empty(values) for name, values in inputs.items()}
        return part(padded, training=False)[:rows]

    def answer(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return task.served(schema.label, inputs, logits_of(inputs))

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

    found = {SERVING_DEFAULT: serving_default, RAW: raw, MODEL_INPUTS: model_inputs, PREPARED: prepared}
    if read_from_text(schema):

        @tf.function(input_signature=[_raw_spec(schema)], autograph=False)
        def unread_texts(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            return {"columns": unread({name: inputs[given] for name, given in names.items()}, schema)}

        found[UNREAD] = unread_texts
    if not task.needs_labels:
        return found
    labels = labels_name(schema)
    with_labels = {**_raw_spec(schema), labels: tf.TensorSpec([None], tf.int32, name=labels)}

    @tf.function(input_signature=[with_labels], autograph=False)
    def evaluated(given: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        inputs = cleaned({name: given[given_name] for name, given_name in names.items()})
        return {EVALUATED: task.evaluated(schema.label, inputs, logits_of(inputs), given[labels])}

    return {**found, EVALUATED: evaluated}


def labels_name(schema: Schema) -> str:
    """The input of `evaluated` that takes the labels: a name that no input of `raw` has."""
    taken = {name.lower() for name in raw_names(schema).values()}
    names = itertools.chain(["labels"], (f"labels_{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken)


def declared(schema: Schema, model: keras.Model) -> dict[str, dict[str, dict[str, list]]]:
    """Describes the signatures of a schema as JSON: name → `inputs` and `outputs` → name → [dtype, shape].

    A shape is a list with null for the batch's size.
    """
    _, task = task_of(schema.label).split(model)
    outputs = {name: described(spec) for name, spec in task.served_specs(schema.label).items()}
    inputs = {
        SERVING_DEFAULT: {"examples": described(tf.TensorSpec([None], tf.string))},
        RAW: raw_inputs_declared(schema),
    }
    return {name: {"inputs": given, "outputs": outputs} for name, given in inputs.items()}


def raw_inputs_declared(schema: Schema) -> dict[str, list]:
    """Describes what `raw` takes: [dtype, shape] by name, as `declared` has it."""
    return {name: described(spec) for name, spec in _raw_spec(schema).items()}


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
