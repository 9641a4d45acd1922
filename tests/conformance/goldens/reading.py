"""What goldens hold, as this version reads it."""

import hashlib
import json
import math
import pathlib

import numpy as np
import tensorflow as tf

from pipeline.data.dataset import manifest
from pipeline.data.dataset.selection import select
from pipeline.data.reading import parsing, windows
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Image
from pipeline.exporting import replay

Examples = dict[str, list[dict[str, object]]]  # by split, in stored order
LABELS_APART = 10  # see config.py


def examples(directory: pathlib.Path) -> Examples:
    """Every example of a dataset, as JSON has it; an image is its SHA-256."""
    dataset = manifest.open_dataset(directory)
    return {
        split: [
            row for _, rows in windows.stored_rows(select(dataset, split)) for row in _rows(rows, dataset)
        ]
        for split in dataset.manifest.splits
    }


def _rows(stored: tf.Tensor, dataset: manifest.Dataset) -> list[dict[str, object]]:
    schema = dataset.schema
    if stored.dtype == tf.string:
        columns = tf.io.parse_example(stored, parsing.parsing_spec(schema))
    else:
        columns = parsing.raw_of_compact(parsing.features_of_words(stored, schema), schema)
    images = {feature.name for feature in schema.of_type(Image)}
    cells = {name: [_cell(v, name in images) for v in column.numpy()] for name, column in columns.items()}
    names = sorted(cells)
    return [dict(zip(names, row, strict=True)) for row in zip(*(cells[name] for name in names), strict=True)]


def _cell(value: object, is_image: bool) -> object:
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest() if is_image else value.decode()
    plain = np.asarray(value).tolist()
    return None if isinstance(plain, float) and math.isnan(plain) else plain


def history(workdir: pathlib.Path) -> tuple[list[int], list[float]]:
    """Of a run of config.py: the number of the example at each position, and its loss."""
    lines = (workdir / "history.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    return [round(math.sqrt(loss) / LABELS_APART) for loss in losses], losses


def predictions(export: pathlib.Path) -> dict[str, list]:
    """What both signatures of an export say of its golden examples, by signature and output."""
    signatures = tf.saved_model.load(str(export)).signatures
    golden = replay.golden_examples(export)
    schema = schema_lib.load(export / schema_lib.FILE_NAME)
    raw = tf.io.parse_example(golden, parsing.parsing_spec(schema, with_label=False))
    outputs = {
        "serving_default": signatures["serving_default"](examples=golden),
        "raw": signatures["raw"](**raw),
    }
    return {
        signature: {name: value.numpy().tolist() for name, value in found.items()}
        for signature, found in outputs.items()
    }
