"""Scores an exported model by TensorFlow and nothing of Penstock.

  python tests/soak/score_with_tensorflow.py MODEL LABEL SHARD…
  python tests/soak/score_with_tensorflow.py MODEL LABEL FILE.csv COLUMN…

The first form sends serialized examples; the second raw strings, of which the label's last class is the one
that its cells start with.

Prints `{"examples": …, "accuracy": …, "auc": …}`; the AUC for two classes only.
"""

import csv
import json
import os
import pathlib
import sys
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

BATCH = 512


def from_records(model: tf.Module, label: str, shards: list[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(labels [batch], probabilities [batch, classes]) of serialized examples."""
    score = model.signatures["serving_default"]
    spec = {label: tf.io.FixedLenFeature((), tf.int64)}
    for records in tf.data.TFRecordDataset(shards).batch(BATCH):
        yield (
            tf.io.parse_example(records, spec)[label].numpy(),
            score(examples=records)["probabilities"].numpy(),
        )


def from_csv(
    model: tf.Module, label: str, path: str, columns: list[str], classes: list[str]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same, of the cells of a CSV file without a header, as they stand there."""
    score = model.signatures["raw"]
    inputs = score.structured_input_signature[1]
    with pathlib.Path(path).open(newline="") as file:
        rows = [dict(zip(columns, row, strict=True)) for row in csv.reader(file) if row]
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        tensors = {name: _tensor([row[name] for row in batch], spec.dtype) for name, spec in inputs.items()}
        labels = [classes.index(row[label].strip().rstrip(".")) for row in batch]
        yield np.array(labels), score(**tensors)["probabilities"].numpy()


def _tensor(cells: list[str], dtype: tf.DType) -> tf.Tensor:
    if dtype == tf.string:
        return tf.constant(cells)
    return tf.constant([float(cell) for cell in cells], tf.float64).numpy().astype(dtype.as_numpy_dtype)


def area(labels: np.ndarray, scores: np.ndarray) -> float:
    """Area under the ROC curve: how often a positive example is ranked above a negative one."""
    ranks = np.unique(scores, return_inverse=True)[1]
    counts = np.bincount(ranks)
    middle = np.cumsum(counts) - (counts - 1) / 2  # rank from 1; equal scores share their mean
    positives = labels == 1
    wins = middle[ranks][positives].sum() - positives.sum() * (positives.sum() + 1) / 2
    return float(wins / (positives.sum() * (~positives).sum()))


def main() -> None:
    directory, label, first, *rest = sys.argv[1:]
    model = tf.saved_model.load(directory)
    if first.endswith(".csv"):
        schema = json.loads((pathlib.Path(directory) / "schema.json").read_text())
        classes = next(f["classes"] for f in schema["features"] if f["name"] == label)
        batches = list(from_csv(model, label, first, rest, classes))
    else:
        batches = list(from_records(model, label, [first, *rest]))
    labels, probabilities = (np.concatenate(part) for part in zip(*batches, strict=True))
    result = {"examples": len(labels), "accuracy": float((probabilities.argmax(axis=1) == labels).mean())}
    if probabilities.shape[1] == 2:
        result["auc"] = area(labels, probabilities[:, 1])
    ours = [name for name in sys.modules if name.partition(".")[0] in ("pipeline", "beam_jobs", "models")]
    assert not ours, f"this process must not need {ours}"
    print(json.dumps(result))


if __name__ == "__main__":
    main()
