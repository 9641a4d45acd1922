"""Metrics of an exported model on a split of a dataset, through the signature that serves it."""

import pathlib
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from pipeline.data.dataset import export_manifest
from pipeline.data.dataset.export_manifest import RAW, SERVING_DEFAULT
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.dataset.window import spans_of
from pipeline.data.errors import InputError
from pipeline.data.input.targets import Targets
from pipeline.data.integrity import damage_budget
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.reading import block_rows, parsing, windows
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.kinds import Label
from pipeline.data.schema.label_tasks import LABEL_TASKS
from pipeline.data.schema.schema import Schema
from pipeline.data.tracing import as_written
from pipeline.release.raw_inputs import raw_inputs
from pipeline.training.experiment import example_weights
from pipeline.training.tasks.metrics import EvaluationMetrics
from pipeline.training.weight_check import require_weights

WEIGHTS_FLAG = "--example_weights"

# Stored rows, string [n] or uint16 [n, words] → labels [n] and predictions [n, …].
_Answer = Callable[[tf.Tensor], tuple[np.ndarray, np.ndarray]]


def score(
    model_directory: pathlib.Path,
    dataset: Dataset,
    *,
    split: str,
    batch: int,
    max_corrupt_records: int = 0,
    weighted_by: str = "",
) -> dict:
    """Feeds every stored record of `split` to the export once, and returns the metrics as JSON has them.

    Args:
      weighted_by: the numeric feature of the dataset that weighs examples; empty: none does.

    Raises:
      InputError: the export is not whole, or the dataset lacks what the model's schema asks for, or holds
        what is no weight.
    """
    export = export_manifest.open_export(model_directory)
    schema = schema_lib.load(model_directory / schema_lib.FILE_NAME)
    _require_readable(schema, dataset)
    targets = Targets(weights=example_weights.named(weighted_by, dataset.schema, flag=WEIGHTS_FLAG))
    model = tf.saved_model.load(str(model_directory))
    selections, damage = damage_budget.sound({split: select(dataset, split)}, budget=max_corrupt_records)
    require_weights(selections.values(), targets.weights, flag=WEIGHTS_FLAG)
    answers = {"rows": _of_records, "blocks": _of_block_rows}
    answer = answers[dataset.manifest.layout](model, schema, dataset.schema)
    return {
        **_metrics(selections[split], schema.label, answer, batch=batch, targets=targets),
        "split": split,
        **({"weighted_by": weighted_by} if weighted_by else {}),
        "model": str(model_directory),
        "model_digest": export["digest"],
        "dataset": str(dataset.directory),
        "dataset_digest": dataset.manifest.digest,
        **({"spans": spans_of(dataset)} if dataset.members else {}),
        "damaged": damage_budget.to_json(damage),
    }


def _metrics(selection: Selection, label: Label, answer: _Answer, *, batch: int, targets: Targets) -> dict:
    """See EvaluationMetrics.result."""
    metrics = EvaluationMetrics(label)
    rows_alone = windows.stored_rows(selection).map(as_written(lambda _, rows: rows))
    progress = tqdm(
        total=selection.rows,
        unit=" examples",
        desc=f"evaluate {selection.expression}",
        leave=False,
        disable=None,
    )
    with naming_damage(selection), progress:
        for rows in rows_alone.rebatch(batch).prefetch(tf.data.AUTOTUNE):
            labels, predictions = answer(rows)
            weights = _weights(rows, selection.dataset.schema, targets)
            metrics.update(labels, predictions, weights=weights)
            progress.update(len(predictions))
    return metrics.result()


def _weights(rows: tf.Tensor, stored: Schema, targets: Targets) -> np.ndarray | None:
    """Of stored rows, float32 [n]; None where examples have none."""
    if targets.weights is None:
        return None
    return targets.weights_of(targets(*parsing.parse_rows(rows, stored))).numpy()


def _require_readable(schema: Schema, dataset: Dataset) -> None:
    """Raises InputError where records of `dataset` do not hold what `schema` reads."""
    problems = schema_lib.incompatibilities(schema, dataset.schema)
    if problems:
        raise InputError(
            f"dataset {dataset}",
            received="; ".join(problems),
            expected="records that the model's schema can read",
            action="Use a dataset converted with the model's schema, or train a model on this one.",
        )


def _of_records(model: tf.Module, schema: Schema, stored: Schema) -> _Answer:
    """Records, string [n], go through `serving_default` as they are."""
    del stored  # a record names its features
    spec = {schema.label.name: parsing.parsing_spec(schema)[schema.label.name]}

    def answer(rows: tf.Tensor) -> tuple[np.ndarray, np.ndarray]:
        labels = tf.io.parse_example(rows, spec)[schema.label.name]
        return _arrays(labels, model.signatures[SERVING_DEFAULT](examples=rows), schema.label)

    return answer


def _of_block_rows(model: tf.Module, schema: Schema, stored: Schema) -> _Answer:
    """Rows of blocks, uint16 [n, words] as `stored` lays them out, go through `raw`."""

    def answer(rows: tf.Tensor) -> tuple[np.ndarray, np.ndarray]:
        raw = block_rows.raw_of_compact(block_rows.features_of_words(rows, stored), stored)
        outputs = model.signatures[RAW](**raw_inputs(raw, schema))
        return _arrays(raw[schema.label.name], outputs, schema.label)

    return answer


def _arrays(
    labels: tf.Tensor, outputs: Mapping[str, tf.Tensor], label: Label
) -> tuple[np.ndarray, np.ndarray]:
    """Labels [n] as the metrics take them, and the predictions [n, …] among the outputs of a signature."""
    return parsing.cast_label(labels, label).numpy(), outputs[LABEL_TASKS[label.task].output].numpy()
