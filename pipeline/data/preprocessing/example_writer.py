"""Raw features → serialized `tf.train.Example`s, row by row; Beam jobs have a faster way."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema


def serialize(features: Mapping[str, np.ndarray], schema: Schema) -> list[bytes]:
    """One Example a row of `features`, each [rows, *feature.shape]. An Example holds only what they hold."""
    (rows,) = {len(values) for values in features.values()}
    return [
        tf.train.Example(
            features=tf.train.Features(
                feature={name: _feature(schema[name], values[row]) for name, values in features.items()}
            )
        ).SerializeToString(deterministic=True)
        for row in range(rows)
    ]


def _feature(feature: Feature, value: np.ndarray) -> tf.train.Feature:
    if feature.wire == "bytes":
        # As objects, because numpy's own type for bytes drops zeros at their end, as a WebP file may have.
        values = np.ravel(np.asarray(value, object)).tolist()
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    values = np.ravel(value).tolist()
    if feature.wire == "int64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))
