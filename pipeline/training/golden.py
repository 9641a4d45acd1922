"""A few records whose predictions every checkpoint holds, so that a restored model can be put to the test.

A checkpoint that restores without an error may still leave a model that decides differently (lost
vocabularies, other statistics, another precision), and this is what notices.
"""

import os
import pathlib

import numpy as np
import tensorflow as tf

from pipeline.data import parse, reader
from pipeline.data.errors import InputError
from pipeline.data.manifest import Dataset
from pipeline.data.preprocess import Preprocess
from pipeline.data.schema import Schema

RECORDS = 8
# Of the largest logit. Another machine's bfloat16 differs by about 1%, a lost vocabulary by 100%.
TOLERANCE = 0.1


def write(path: pathlib.Path, dataset: Dataset) -> None:
    """Saves the first records of the train split, unless it was done before."""
    if path.exists():
        return
    # Named after the process: all workers of a cluster write this file, with the same content.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with tf.io.TFRecordWriter(str(temporary)) as writer:
        for record in reader.stored_order(dataset, "train").take(RECORDS):
            writer.write(record.numpy())
    temporary.replace(path)


def inputs(path: pathlib.Path, schema: Schema, preprocess: Preprocess) -> dict[str, tf.Tensor]:
    """Model inputs of the saved records, at most [RECORDS, …]."""
    serialized = next(iter(tf.data.TFRecordDataset(str(path)).batch(RECORDS)))
    features, _ = parse.parse_examples(serialized, schema)
    return preprocess(features)


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
