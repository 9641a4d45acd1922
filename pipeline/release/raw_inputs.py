"""Stored features as the `raw` signature takes them: what it reads from text is spelled as text again."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from pipeline.data.preprocessing.kinds import OF_KIND
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema
from pipeline.release.raw_names import raw_names


def raw_inputs(features: Mapping[str, tf.Tensor], schema: Schema) -> dict[str, tf.Tensor]:
    """The arguments of `raw` for `features` as records hold them, each [batch, …]."""
    return {given: _spelled(schema[name], features[name]) for name, given in raw_names(schema).items()}


def _spelled(feature: Feature, values: tf.Tensor) -> tf.Tensor:
    if values.dtype == tf.string or not feature.is_text_in_requests:
        return values
    texts = OF_KIND.of(feature).spelled(feature, values.numpy())
    return tf.constant(np.array(texts, object), tf.string)
