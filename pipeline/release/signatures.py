"""The two signatures of an exported model, with clean-up and preprocessing inside and float32 out."""

from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from pipeline.data import parse
from pipeline.data.clean import clean_strings
from pipeline.data.preprocess import Preprocess
from pipeline.data.schema import Schema
from pipeline.training.metrics import head_predictions

SERVING_DEFAULT = "serving_default"
RAW = "raw"

Signature = Callable[..., Mapping[str, tf.Tensor]]


def signatures(model: keras.Model, preprocess: Preprocess, schema: Schema) -> dict[str, Signature]:
    """Graph functions by signature name.

    `serving_default` takes `examples`, string [batch], serialized tf.train.Examples without a label;
    `raw` takes each input feature by name, [batch, *shape]. Both give what `head_predictions` gives.
    """
    task = schema.label.task

    def predict(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        inputs = preprocess(clean_strings(dict(features), schema))
        return head_predictions(task, model(inputs, training=False))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serving_default(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return predict(tf.io.parse_example(examples, parse.parsing_spec(schema, with_label=False)))

    @tf.function(input_signature=[raw_spec(schema)])
    def raw(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return predict(features)

    return {SERVING_DEFAULT: serving_default, RAW: raw}


def raw_spec(schema: Schema) -> dict[str, tf.TensorSpec]:
    """Named tensors that the `raw` signature takes."""
    return {
        feature.name: tf.TensorSpec([None, *feature.shape], parse.DTYPES[feature.dtype], name=feature.name)
        for feature in schema.inputs
    }
