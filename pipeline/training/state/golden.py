"""The golden records: every checkpoint holds their predictions, and a restored model must repeat them.

A checkpoint may restore without an error and still leave a model that decides differently: for example
because a vocabulary is lost, or the statistics or the precision differ. This check notices it.
"""

import os
import pathlib

import numpy as np
import tensorflow as tf

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import Selection
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.preprocessing import requests
from pipeline.data.preprocessing.preprocess import LabelScale, Preprocess
from pipeline.data.reading import parsing, windows
from pipeline.data.schema.feature_types import PADDING
from pipeline.data.schema.schema import Schema
from pipeline.report.comparison import largest_difference

RECORDS = 8
# The tolerance as a share of the largest logit or the labels' spread. Another machine's bfloat16 makes a
# difference of 1%, a lost vocabulary of 100%.
_TOLERANCE = 0.1
_WITHOUT_UNIT = LabelScale()


def write(path: pathlib.Path, selection: Selection) -> None:
    """Saves the first training records, or rows where a record is a group of rows, unless the file exists."""
    if path.exists():
        return
    # The name holds the process id, because all workers of a cluster write this file, with the same content.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with tf.io.TFRecordWriter(str(temporary)) as writer:
            for record in _first_records(selection):
                writer.write(record)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def inputs(path: pathlib.Path, schema: Schema, preprocess: Preprocess) -> dict[str, tf.Tensor]:
    """Model inputs of the saved records, at most [RECORDS, …]."""
    try:
        files.read_bytes(path)  # read first, because TensorFlow would wait for a pipe
        serialized = next(iter(tf.data.TFRecordDataset(str(path)).batch(RECORDS)))
    except (tf.errors.OpError, StopIteration, OSError):
        raise InputError(
            f"golden records {path}",
            received="records that are damaged, or none",
            expected="the records that the training run wrote there",
            action="Restore the file from a copy; or delete it: the same pipeline.train "
            "command writes it again.",
        ) from None

    # This is a graph: without one, each image would trace its branches again, and TensorFlow would warn about
    # it.
    prepare = tf.function(
        lambda records: preprocess(parsing.parse_examples(records, schema.of_rows)[0]), autograph=False
    )
    return prepare(serialized)


def _first_records(selection: Selection) -> list[bytes]:
    dataset = selection.dataset
    with naming_damage(selection):
        _, rows = next(iter(windows.stored_rows(selection)))
    rows = rows[:RECORDS]
    if dataset.schema.group:
        return rows_of_groups(rows, dataset.schema, most=RECORDS)
    if rows.dtype == tf.string:
        return rows.numpy().tolist()
    features = parsing.raw_of_compact(parsing.features_of_words(rows, dataset.schema), dataset.schema)
    return requests.serialize({name: values.numpy() for name, values in features.items()}, dataset.schema)


def rows_of_groups(groups: tf.Tensor, schema: Schema, *, most: int) -> list[bytes]:
    """The first rows of stored groups, as records of one row each."""
    features = {name: values.numpy() for name, values in parsing.stored_features(groups, schema).items()}
    is_there = features[schema.label.name] != PADDING
    rows = {name: values[is_there][:most] for name, values in features.items()}
    return requests.serialize(rows, schema.of_rows)


def check(*, saved: np.ndarray, now: np.ndarray, checkpoint: str, scale: LabelScale = _WITHOUT_UNIT) -> None:
    """Raises InputError if float32 logits [records, outputs] differ by more than a tenth of the largest one.

    Args:
      scale: scale of the labels. The size of a logit is its distance from their mean, and at least their
        spread. So seconds and nanoseconds are treated alike, and so are years near 2,000.
    """
    if isinstance(scale.spread, tuple):  # each target in its own unit
        saved, now = ((logits - scale.mean) / scale.spread for logits in (saved, now))
        scale = _WITHOUT_UNIT
    difference = largest_difference(now, saved)
    allowed = _TOLERANCE * max(scale.spread, float(np.max(np.abs(saved - scale.mean))))
    if not difference <= allowed:
        raise InputError(
            f"checkpoint {checkpoint}",
            received=f"a model whose predictions differ by {difference:.3g} from those when it was saved",
            expected=f"at most {allowed:.3g}, on the records in the working directory",
            action="Restore statistics.pb, schema.json and the package version of the run, or train anew.",
        )
