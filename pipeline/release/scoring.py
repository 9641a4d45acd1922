"""Metrics of an exported model on a split of a dataset, through the signature that serves it."""

import pathlib

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from pipeline.data import exported, parse, reader
from pipeline.data import schema as schema_lib
from pipeline.data.errors import InputError
from pipeline.data.manifest import Dataset
from pipeline.data.schema import Schema
from pipeline.training.metrics import EvaluationMetrics


def score(model_directory: pathlib.Path, dataset: Dataset, *, split: str, batch: int) -> dict:
    """Feeds every stored record of `split` to `serving_default` once, and returns the metrics as JSON.

    Raises:
      InputError: the export is not whole, or the dataset lacks what the model's schema asks for.
    """
    export = exported.open_export(model_directory)
    schema = schema_lib.load(model_directory / schema_lib.FILE_NAME)
    require_readable(schema, dataset)
    serve = tf.saved_model.load(str(model_directory)).signatures["serving_default"]
    metrics = EvaluationMetrics(schema.label)
    label_spec = {schema.label.name: parse.parsing_spec(schema)[schema.label.name]}
    stored = reader.stored_order(dataset, split).batch(batch).prefetch(tf.data.AUTOTUNE)
    progress = tqdm(
        total=dataset.records(split), unit=" examples", desc=f"evaluate {split}", leave=False, disable=None
    )
    with reader.naming_damage(dataset, split), progress:
        for serialized in stored:
            labels = tf.io.parse_example(serialized, label_spec)[schema.label.name]
            predictions = _prediction(serve(examples=serialized))
            metrics.update(parse.cast_label(labels, schema.label).numpy(), predictions)
            progress.update(len(predictions))
    return {
        **metrics.result(),
        "split": split,
        "model": str(model_directory),
        "model_digest": export["digest"],
        "dataset": str(dataset.directory),
        "dataset_digest": dataset.manifest.digest,
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


def _prediction(outputs: dict[str, tf.Tensor]) -> np.ndarray:
    (prediction,) = outputs.values()
    return prediction.numpy()
