"""The features of single records as they are stored, read by their place in the file."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from pipeline.data.reading import block_rows, parsing
from pipeline.data.reading.mixture import TrainingData, main_of
from pipeline.data.schema.schema import Schema
from pipeline.training.replaying.record import Record
from pipeline.training.replaying.stored_records import payload

RawFeatures = dict[str, np.ndarray]  # by feature, the label too; bytes where it is a string


def raw_features(data: TrainingData, records: Sequence[Record]) -> list[RawFeatures]:
    """The stored features of each record, [*feature.shape] each.

    Raises:
      InputError: a record is not the one that was published.
    """
    schema = main_of(data).dataset.schema
    return [_parsed(payload(data, record), record, schema) for record in records]


def _parsed(payload: bytes, record: Record, schema: Schema) -> RawFeatures:
    if record.row is None:
        columns = tf.io.parse_example(tf.constant([payload]), parsing.parsing_spec(schema))
    else:
        words = block_rows.words_of_blocks(tf.constant([payload]), schema)[record.row][None]
        columns = block_rows.raw_of_compact(block_rows.features_of_words(words, schema), schema)
    return {name: np.asarray(column[0]) for name, column in columns.items()}
