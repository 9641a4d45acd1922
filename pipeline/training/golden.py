"""A few records whose predictions every checkpoint holds, so that a restored model can be put to the test.

A checkpoint that restores without an error may still leave a model that decides differently (lost
vocabularies, other statistics, another precision), and this is what notices.
"""

import os
import pathlib

import numpy as np
import tensorflow as tf

from pipeline.data import block_rows, examples, parse, reader
from pipeline.data.damage import naming_damage
from pipeline.data.errors import InputError
from pipeline.data.preprocess import Preprocess
from pipeline.data.schema import Schema
from pipeline.data.selection import Selection

RECORDS = 8
# Of the largest logit. Another machine's bfloat16 differs by about 1%, a lost vocabulary by 100%.
TOLERANCE = 0.1


def write(path: pathlib.Path, selection: Selection) -> None:
    """Saves the first records that are trained on, unless it was done before."""
    if path.exists():
        return
    # Named after the process: all workers of a cluster write this file, with the same content.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with tf.io.TFRecordWriter(str(temporary)) as writer:
        for record in _first_records(selection):
            writer.write(record)
    temporary.replace(path)


def inputs(path: pathlib.Path, schema: Schema, preprocess: Preprocess) -> dict[str, tf.Tensor]:
    """Model inputs of the saved records, at most [RECORDS, …]."""
    serialized = next(iter(tf.data.TFRecordDataset(str(path)).batch(RECORDS)))
    features, _ = parse.parse_examples(serialized, schema)
    return preprocess(features)


def _first_records(selection: Selection) -> list[bytes]:
    dataset = selection.dataset
    with naming_damage(selection):
        _, rows = next(iter(reader.stored_rows(selection)))
    rows = rows[:RECORDS]
    if rows.dtype == tf.string:
        return rows.numpy().tolist()
    features = block_rows.raw_of_compact(block_rows.features_of_words(rows, dataset.schema), dataset.schema)
    return examples.serialize({name: values.numpy() for name, values in features.items()}, dataset.schema)


def check(*, saved: np.ndarray, now: np.ndarray, checkpoint: str) -> None:
    """Raises InputError if logits [records, outputs] differ by more than TOLERANCE of the largest."""
    difference = float(np.max(np.abs(saved - now)))
    allowed = TOLERANCE * max(1.0, float(np.max(np.abs(saved))))
    if not difference <= allowed:
        raise InputError(
            f"checkpoint {checkpoint}",
            received=f"a model whose predictions differ by {difference:.3g} from those when it was saved",
            expected=f"at most {allowed:.3g}, on the records in the working directory",
            action="Restore statistics.pb, schema.json and the package version of the run, or train anew.",
        )
