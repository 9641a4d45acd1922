"""What several models answer to the rows of one holdout, as one file.

The file is a compressed .npz of NumPy's. Its array `document` is a JSON text that says everything that is no
array of rows, and what the arrays are called; it carries its own digest.
"""

import dataclasses
import hashlib
import io
import json
import pathlib
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np

from pipeline.data import atomic_files, ordinary_files, self_digest
from pipeline.data.errors import InputError
from pipeline.data.integrity import damage_budget
from pipeline.data.integrity.damage_budget import Damage

FORMAT = "penstock.answers/1"
_DOCUMENT = "document"
_PREDICTIONS, _SLICES = "predictions", "slices"

# RuntimeError: a changed byte may say that a member is encrypted.
_OF_OTHER_CONTENT = (
    *(ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Of n rows, in stored order, each once.

    Attributes:
      task: that of the label, such as "binary".
      classes: names of the label's classes; empty for a number.
      labels: [n], int32 classes or float32 values.
      predictions: by role, float32 [n, …], as the task's metrics take them.
      weights: float32 [n]; None: every row counts the same.
      clusters: int64 [n], rows of one number belong together; None: every row stands alone.
      slices: by feature, text [n].
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
    damaged: Damage = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def digest(self) -> str:
        """SHA-256 of which rows these are: the dataset's digest, the split, and what was left out of it."""
        said = [FORMAT, self.dataset_digest, self.split, sorted(record.key for record in self.damaged)]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    def save(self, path: pathlib.Path) -> None:
        """Writes the file whole or not at all; the same answers give the same bytes."""
        content = io.BytesIO()
        np.savez_compressed(content, **self._arrays(), **{_DOCUMENT: np.array(json.dumps(self._document()))})
        atomic_files.write_bytes(path, content.getvalue())

    def _document(self) -> dict:
        return self_digest.with_digest(
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
                "damaged": damage_budget.to_json(self.damaged),
            }
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        """By a name that every file system takes: roles and features are numbered."""
        single = {"labels": self.labels, "weights": self.weights, "clusters": self.clusters}
        return {
            **{name: array for name, array in single.items() if array is not None},
            **_numbered(_PREDICTIONS, self.predictions),
            **_numbered(_SLICES, self.slices),
        }


def load(path: pathlib.Path) -> Answers:
    """Reads what `Answers.save` wrote; raises InputError where the file is none, or is not whole."""
    try:
        content = ordinary_files.read_bytes(path)
    except OSError as error:
        raise _unreadable(path, error.strerror) from None
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return _answers(arrays)
    except _OF_OTHER_CONTENT as error:
        raise _unreadable(path, f"other content ({error})") from None


def _answers(arrays: Mapping[str, np.ndarray]) -> Answers:
    document = json.loads(str(arrays[_DOCUMENT]))
    self_digest.check(document)
    if document["format"] != FORMAT:
        raise ValueError(f"format '{document['format']}', not '{FORMAT}'")
    if {*arrays} != {_DOCUMENT, *document["arrays"]}:
        raise ValueError(f"arrays {', '.join(arrays)}, not {', '.join(document['arrays'])}")
    found = Answers(
        task=document["task"],
        classes=tuple(document["classes"]),
        labels=arrays["labels"],
        predictions=_named(_PREDICTIONS, document["roles"], arrays),
        weights=arrays.get("weights"),
        clusters=arrays.get("clusters"),
        slices=_named(_SLICES, document["slices"], arrays),
        models=document["models"],
        dataset_digest=document["dataset_digest"],
        split=document["split"],
        damaged=damage_budget.from_json(document["damaged"]),
    )
    lengths = {len(array) for array in found._arrays().values()}
    if lengths != {document["rows"]}:
        raise ValueError(f"arrays of {sorted(lengths)} rows, not {document['rows']}")
    return found


def _numbered(kind: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{kind}_{number}": array for number, array in enumerate(arrays.values())}


def _named(kind: str, names: list[str], arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inverse of `_numbered`."""
    return {name: arrays[f"{kind}_{number}"] for number, name in enumerate(names)}


def _unreadable(path: pathlib.Path, received: str) -> InputError:
    return InputError(
        f"answers {path}",
        received=received,
        expected=f"a file of format '{FORMAT}', as it was written",
        action="Delete it, and score the models again.",
    )
