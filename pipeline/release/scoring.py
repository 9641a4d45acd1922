"""Metrics of an exported model on a split of a dataset, through the signature that serves it."""

import pathlib

import numpy as np

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.dataset.window import spans_of
from pipeline.data.input.targets import Targets
from pipeline.data.integrity import damage_budget
from pipeline.release import asking
from pipeline.release.asking import ExportedModel, StoredRows
from pipeline.training.experiment import example_weights
from pipeline.training.tasks.metrics import EvaluationMetrics
from pipeline.training.weight_check import require_weights

WEIGHTS_FLAG = "--example_weights"


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
    model = asking.open_model(model_directory, dataset)
    targets = Targets(weights=example_weights.named(weighted_by, dataset.schema, flag=WEIGHTS_FLAG))
    selections, damage = damage_budget.sound({split: select(dataset, split)}, budget=max_corrupt_records)
    require_weights(selections.values(), targets.weights, flag=WEIGHTS_FLAG)
    return {
        **_metrics(selections[split], model, batch=batch, targets=targets),
        "split": split,
        **({"weighted_by": weighted_by} if weighted_by else {}),
        "model": str(model_directory),
        "model_digest": model.digest,
        "dataset": str(dataset.directory),
        "dataset_digest": dataset.manifest.digest,
        **({"spans": spans_of(dataset)} if dataset.members else {}),
        "damaged": damage_budget.to_json(damage),
    }


def _metrics(selection: Selection, model: ExportedModel, *, batch: int, targets: Targets) -> dict:
    """See EvaluationMetrics.result."""

    def ask(rows: StoredRows) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        return rows.labels(model.label), model.predictions(rows), rows.weights(targets)

    metrics = EvaluationMetrics(model.label)
    for labels, predictions, weights in asking.answers(
        selection, ask, batch=batch, told=f"evaluate {selection.expression}"
    ):
        metrics.update(labels, predictions, weights=weights)
    return metrics.result()
