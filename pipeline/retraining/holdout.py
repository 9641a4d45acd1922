"""Scores several models on the rows of one holdout, and keeps their answers in one file.

The file is a compressed .npz of NumPy. Its array `document` is a JSON text with its own digest. It has the
names of the arrays, and everything that is not an array of rows.
"""

import dataclasses
import hashlib
import io
import json
import pathlib
import zipfile
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.base import documents, files
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.row_hashes import RowHasher, content_hashes
from pipeline.data.dataset.selection import select
from pipeline.data.input.training import Targets
from pipeline.data.integrity import damage as damage_lib
from pipeline.data.integrity.damage import Damage
from pipeline.data.schema.feature_types import Label
from pipeline.exporting import scoring
from pipeline.exporting.scoring import ExportedModel, StoredRows
from pipeline.retraining import groups
from pipeline.training.experiment import example_weights
from pipeline.training.run.weights import require_weights

FORMAT = "penstock.answers/1"
_DOCUMENT = "document"
_PREDICTIONS, _SLICES = "predictions", "slices"

# RuntimeError is among them: after a change of one byte, a member may look encrypted.
_OF_OTHER_CONTENT = (
    *(ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """The answers to n rows, in stored order, each once.

    Attributes:
      task: task of the label, such as "binary".
      classes: names of the label's classes; empty for a number.
      labels: [n, *label.shape], int32 classes or float32 values.
      predictions: by role, float32 [n, …], as the gate takes them: see Scored.
      weights: float32 [n]; None: every row counts the same.
      clusters: int64 [n]; rows with the same number belong together; None: rows are independent.
      slices: by feature, text [n].
      content: uint64 [n], equal for equal stored rows; None: not known, because an older version wrote
        the answers.
      models: by role, the digest of the export that answered.
      dataset_digest, split: the holdout.
      damaged: records of the holdout that were left out.
    """

    task: str
    classes: tuple[str, ...]
    labels: np.ndarray
    predictions: Mapping[str, np.ndarray]
    weights: np.ndarray | None
    clusters: np.ndarray | None
    slices: Mapping[str, np.ndarray]
    models: Mapping[str, str]
    dataset_digest: str
    split: str
    content: np.ndarray | None = None
    damaged: Damage = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def digest(self) -> str:
        """The SHA-256 of the choice of rows: the dataset's digest, the split, and the rows left out."""
        chosen = [FORMAT, self.dataset_digest, self.split, sorted(record.key for record in self.damaged)]
        return hashlib.sha256(json.dumps(chosen).encode()).hexdigest()

    def save(self, path: pathlib.Path) -> None:
        """Writes the file whole or not at all; the same answers give the same bytes."""
        content = io.BytesIO()
        np.savez_compressed(content, **self._arrays(), **{_DOCUMENT: np.array(json.dumps(self._document()))})
        files.write_bytes(path, content.getvalue())

    def _document(self) -> dict:
        return documents.with_digest(
            {
                "format": FORMAT,
                "task": self.task,
                "classes": [*self.classes],
                "rows": len(self),
                "arrays": [*self._arrays()],
                "roles": [*self.predictions],
                "slices": [*self.slices],
                "models": dict(self.models),
                "dataset_digest": self.dataset_digest,
                "split": self.split,
                "damaged": damage_lib.damage_to_json(self.damaged),
            }
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        """Returns the arrays by names that every file system accepts: roles and features are numbered."""
        single = {"labels": self.labels, "weights": self.weights, "clusters": self.clusters}
        single["content"] = self.content
        return {
            **{name: array for name, array in single.items() if array is not None},
            **_numbered(_PREDICTIONS, self.predictions),
            **_numbered(_SLICES, self.slices),
        }


# Only without the result of the stage, too, does a cycle score the models again.
SCORED_AGAIN = "Delete it and evaluate.json beside it; then run `pipeline.retrain reconcile --retry`."


def load(path: pathlib.Path) -> Answers:
    """Reads a file of `Answers.save`; raises InputError where it is not one, or is not whole."""
    try:
        content = files.read_bytes(path)
    except OSError as error:
        raise _unreadable(path, error.strerror) from None
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return _answers(arrays)
    except _OF_OTHER_CONTENT as error:
        raise _unreadable(path, f"other content ({error})") from None


def _answers(arrays: Mapping[str, np.ndarray]) -> Answers:
    document = documents.loads(str(arrays[_DOCUMENT]).encode(), file_format=FORMAT)
    if {*arrays} != {_DOCUMENT, *document["arrays"]}:
        raise ValueError(f"arrays {', '.join(arrays)}, not {', '.join(document['arrays'])}")
    found = Answers(
        task=document["task"],
        classes=tuple(document["classes"]),
        labels=arrays["labels"],
        predictions=_named(_PREDICTIONS, document["roles"], arrays),
        weights=arrays.get("weights"),
        clusters=arrays.get("clusters"),
        content=arrays.get("content"),
        slices=_named(_SLICES, document["slices"], arrays),
        models=document["models"],
        dataset_digest=document["dataset_digest"],
        split=document["split"],
        damaged=damage_lib.damage_from_json(document["damaged"]),
    )
    lengths = {len(array) for array in found._arrays().values()}
    if lengths != {document["rows"]}:
        raise ValueError(f"arrays of {sorted(lengths)} rows, not {document['rows']}")
    return found


def _numbered(kind: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{kind}_{number}": array for number, array in enumerate(arrays.values())}


def _named(kind: str, names: list[str], arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Inverts `_numbered`."""
    return {name: arrays[f"{kind}_{number}"] for number, name in enumerate(names)}


def _unreadable(path: pathlib.Path, received: str) -> InputError:
    return InputError(
        f"answers {path}",
        received=received,
        expected=f"a file of format '{FORMAT}', as it was written",
        action=SCORED_AGAIN,
    )


# --- Scoring: several exports answer every row of one holdout.


WEIGHTED_BY, CLUSTERED_BY, SLICES = "weighted_by", "clustered_by", "slices"
_LABELS, _PREDICTIONS_FILE, _CONTENT = "labels", "predictions", "content"

_Columns = dict[tuple[str, str], np.ndarray]  # [n, …] each, by kind, and by role or feature


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
    """Reads the holdout once, and gets every model's answer to every row.

    Args:
      models: directories of exports, by role, such as "champion" and "challenger".
      dataset: one, or several spans as one; `split` is any expression of its splits.
      batch: the number of rows that a model gets at once. It changes only speed and memory.
      weighted_by: the numeric feature that weights rows; empty: none.
      clustered_by: the feature; rows with the same value of it belong together. Empty: rows are independent.
      slices: features whose values make slices.

    Raises:
      InputError: an export is not whole, or cannot read the dataset; two predict different labels; the
        dataset lacks a named feature; a weight is invalid; too many records are damaged.
    """
    grouping = tuple(dict.fromkeys([*slices, *([clustered_by] if clustered_by else [])]))
    groups.require_columns([clustered_by] if clustered_by else (), dataset.schema, key=CLUSTERED_BY)
    groups.require_columns(slices, dataset.schema, key=SLICES)
    targets = Targets(weights=example_weights.named(weighted_by, dataset.schema, flag=WEIGHTED_BY))
    opened = {role: scoring.open_model(directory, dataset) for role, directory in models.items()}
    label = _label_of_all(opened)
    sound, damage = damage_lib.sound_selection({split: select(dataset, split)}, budget=max_corrupt_records)
    require_weights(sound.values(), targets.weights, flag=WEIGHTED_BY)

    def ask(rows: StoredRows) -> _Columns:
        return {
            (_LABELS, ""): rows.labels(label),
            (_CONTENT, ""): _content(rows),
            **{(_PREDICTIONS_FILE, role): model.evaluated(rows) for role, model in opened.items()},
            **_weights(rows, targets),
            **_texts(rows, grouping),
        }

    found = _joined([*scoring.answers(sound[split], ask, batch=batch, title=f"score {split}")])
    return Answers(
        task=label.task,
        classes=label.classes,
        labels=found[_LABELS, ""],
        predictions={role: found[_PREDICTIONS_FILE, role] for role in opened},
        weights=found.get((WEIGHTED_BY, "")),
        clusters=groups.clusters(found[SLICES, clustered_by]) if clustered_by else None,
        slices={name: found[SLICES, name] for name in slices},
        content=found[_CONTENT, ""],
        models={role: model.digest for role, model in opened.items()},
        dataset_digest=dataset.manifest.digest,
        split=split,
        damaged=damage,
    )


def _content(rows: StoredRows) -> np.ndarray:
    stored = rows.stored.numpy()
    return content_hashes(stored) if rows.are_records else RowHasher(stored.shape[1])(stored)


def _label_of_all(models: Mapping[str, ExportedModel]) -> Label:
    """Returns the label of all models; raises InputError where there is no model, or two labels differ."""
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
                received=f"a model of {_format(other.label)}",
                expected=f"one of {_format(one.label)}, as the {first} {one.directory} is",
                action="Compare models that predict the same label.",
            )
    return one.label


def _predicted(label: Label) -> tuple:
    return label.name, label.task, label.classes


def _format(label: Label) -> str:
    names = f"{len(label.classes):,}" if label.is_retrieval else ", ".join(label.classes)
    classes = f", classes {names}" if label.classes else ""
    return f"label '{label.name}', task {label.task}{classes}"


def _weights(rows: StoredRows, targets: Targets) -> _Columns:
    weights = rows.weights(targets)
    return {} if weights is None else {(WEIGHTED_BY, ""): weights}


def _texts(rows: StoredRows, names: Sequence[str]) -> _Columns:
    """Returns the features as text [n], under the keys (SLICES, name)."""
    values = rows.features(names) if names else {}
    return {
        (SLICES, name): groups.texts(rows.schema[name], tensor.numpy()) for name, tensor in values.items()
    }


def _joined(parts: Sequence[_Columns]) -> _Columns:
    return {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
