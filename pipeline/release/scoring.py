"""Metrics of an exported model on a split of a dataset, through the signature that serves it."""

import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from pipeline.data import block_rows, exported, loss_budget, parse, reader
from pipeline.data import schema as schema_lib
from pipeline.data.damage import naming_damage
from pipeline.data.errors import InputError
from pipeline.data.manifest import Dataset
from pipeline.data.schema import Schema
from pipeline.data.selection import select
from pipeline.training.metrics import EvaluationMetrics


def score(
    model_directory: pathlib.Path, dataset: Dataset, *, split: str, batch: int, max_corrupt_records: int = 0
) -> dict:
    """Feeds every stored record of `split` to `serving_default` once, and returns the metrics as JSON.

    Raises:
      InputError: the export is not whole, or the dataset lacks what the model's schema asks for.
    """
    export = exported.open_export(model_directory)
    schema = schema_lib.load(model_directory / schema_lib.FILE_NAME)
    require_readable(schema, dataset)
    predict = _predictor(model_directory, schema, dataset)
    metrics = EvaluationMetrics(schema.label)
    selections, damage = loss_budget.sound({split: select(dataset, split)}, budget=max_corrupt_records)
    selection = selections[split]
    stored = reader.stored_rows(selection).map(lambda _, rows: rows).rebatch(batch).prefetch(tf.data.AUTOTUNE)
    progress = tqdm(
        total=selection.rows, unit=" examples", desc=f"evaluate {split}", leave=False, disable=None
    )
    with naming_damage(selection), progress:
        for rows in stored:
            labels, predictions = predict(rows)
            metrics.update(labels, predictions)
            progress.update(len(predictions))
    return {
        **metrics.result(),
        "split": split,
        "model": str(model_directory),
        "model_digest": export["digest"],
        "dataset": str(dataset.directory),
        "dataset_digest": dataset.manifest.digest,
        "damaged": loss_budget.to_json(damage),
    }


def require_readable(schema: Schema, dataset: Dataset) -> None:
    """Raises InputError where records of `dataset` do not hold what `schema` reads."""
    problems = schema_lib.incompatibilities(schema, dataset.schema)
    if problems:
        raise InputError(
            f"dataset {dataset.directory}",
            received="; ".join(problems),
            expected="records that the model's schema can read",
            action="Use a dataset converted with the model's schema, or train a model on this one.",
        )


def _predictor(directory: pathlib.Path, schema: Schema, dataset: Dataset) -> Callable[[tf.Tensor], tuple]:
    """Rows → (labels, predictions): records through `serving_default`, rows of blocks through `raw`."""
    signatures = tf.saved_model.load(str(directory)).signatures
    label = schema.label
    label_spec = {label.name: parse.parsing_spec(schema)[label.name]}

    def of_records(rows: tf.Tensor) -> tuple[np.ndarray, np.ndarray]:
        labels = tf.io.parse_example(rows, label_spec)[label.name]
        return _arrays(labels, signatures["serving_default"](examples=rows))

    def of_block_rows(rows: tf.Tensor) -> tuple[np.ndarray, np.ndarray]:
        compact = block_rows.features_of_words(rows, dataset.schema)
        raw = block_rows.raw_of_compact(compact, dataset.schema)
        inputs = {feature.name: raw[feature.name] for feature in schema.inputs}
        return _arrays(raw[label.name], signatures["raw"](**inputs))

    def _arrays(labels: tf.Tensor, outputs: dict[str, tf.Tensor]) -> tuple[np.ndarray, np.ndarray]:
        (prediction,) = outputs.values()
        return parse.cast_label(labels, label).numpy(), prediction.numpy()

    return of_records if dataset.manifest.layout == "rows" else of_block_rows
