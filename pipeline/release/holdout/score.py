"""Asks several exports for their answers to every row of one holdout."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.errors import InputError
from pipeline.data.input.targets import Targets
from pipeline.data.integrity import damage_budget
from pipeline.data.schema.kinds import Label
from pipeline.release import asking
from pipeline.release.asking import ExportedModel, StoredRows
from pipeline.release.holdout import groups
from pipeline.release.holdout.answers import Answers
from pipeline.training.experiment import example_weights
from pipeline.training.weight_check import require_weights

WEIGHTED_BY, CLUSTERED_BY, SLICES = "weighted_by", "clustered_by", "slices"
_LABELS, _PREDICTIONS = "labels", "predictions"

_Columns = dict[tuple[str, str], np.ndarray]  # [n, …] each, by what it is, and a role or feature


def score(
    models: Mapping[str, pathlib.Path],
    dataset: Dataset,
    *,
    split: str,
    batch: int = 1024,
    weighted_by: str = "",
    clustered_by: str = "",
    slices: Sequence[str] = (),
    max_corrupt_records: int = 0,
) -> Answers:
    """Reads the holdout once, and asks every model for every row of it.

    Args:
      models: directories of exports, by role, such as "champion" and "challenger".
      dataset: one, or several spans as one; `split` is any expression of its splits.
      batch: rows that a model is asked of at once. It changes speed and memory alone.
      weighted_by: the numeric feature that weighs rows; empty: none does.
      clustered_by: the feature whose rows of one value belong together; empty: every row stands alone.
      slices: features by whose values results are told apart.

    Raises:
      InputError: an export is not whole, or cannot read the dataset; two predict different labels; the
        dataset lacks a feature that is named; a weight is none; more records are damaged than may be.
    """
    grouping = tuple(dict.fromkeys([*slices, *([clustered_by] if clustered_by else [])]))
    groups.require_columns([clustered_by] if clustered_by else (), dataset.schema, told=CLUSTERED_BY)
    groups.require_columns(slices, dataset.schema, told=SLICES)
    targets = Targets(weights=example_weights.named(weighted_by, dataset.schema, flag=WEIGHTED_BY))
    opened = {role: asking.open_model(directory, dataset) for role, directory in models.items()}
    label = _label_of_all(opened)
    sound, damage = damage_budget.sound({split: select(dataset, split)}, budget=max_corrupt_records)
    require_weights(sound.values(), targets.weights, flag=WEIGHTED_BY)

    def ask(rows: StoredRows) -> _Columns:
        return {
            (_LABELS, ""): rows.labels(label),
            **{(_PREDICTIONS, role): model.predictions(rows) for role, model in opened.items()},
            **_weights(rows, targets),
            **_texts(rows, grouping),
        }

    found = _joined([*asking.answers(sound[split], ask, batch=batch, told=f"score {split}")])
    return Answers(
        task=label.task,
        classes=label.classes,
        labels=found[_LABELS, ""],
        predictions={role: found[_PREDICTIONS, role] for role in opened},
        weights=found.get((WEIGHTED_BY, "")),
        clusters=groups.clusters(found[SLICES, clustered_by]) if clustered_by else None,
        slices={name: found[SLICES, name] for name in slices},
        models={role: model.digest for role, model in opened.items()},
        dataset_digest=dataset.manifest.digest,
        split=split,
        damaged=damage,
    )


def _label_of_all(models: Mapping[str, ExportedModel]) -> Label:
    """What all of them predict; raises InputError where there is no model, or two differ in it."""
    if not models:
        raise InputError(
            "models to compare",
            received="none",
            expected="at least one exported model",
            action="Name the directory that `python -m pipeline.export --output=…` wrote.",
        )
    (first, one), *others = models.items()
    for role, other in others:
        if _predicted(other.label) != _predicted(one.label):
            raise InputError(
                f"{role} {other.directory}",
                received=f"a model of {_told(other.label)}",
                expected=f"one of {_told(one.label)}, as the {first} {one.directory} is",
                action="Compare models that predict the same label.",
            )
    return one.label


def _predicted(label: Label) -> tuple:
    return label.name, label.task, label.classes


def _told(label: Label) -> str:
    classes = f", classes {', '.join(label.classes)}" if label.classes else ""
    return f"label '{label.name}', task {label.task}{classes}"


def _weights(rows: StoredRows, targets: Targets) -> _Columns:
    weights = rows.weights(targets)
    return {} if weights is None else {(WEIGHTED_BY, ""): weights}


def _texts(rows: StoredRows, names: Sequence[str]) -> _Columns:
    """The features as text [n], each under SLICES."""
    values = rows.features(names) if names else {}
    return {
        (SLICES, name): groups.texts(rows.schema[name], tensor.numpy()) for name, tensor in values.items()
    }


def _joined(parts: Sequence[_Columns]) -> _Columns:
    return {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
