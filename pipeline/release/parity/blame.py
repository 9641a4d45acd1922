"""Which features reach the model as other numbers in serving than in training."""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.schema.schema import Schema
from pipeline.release.parity.result import FeatureSkew
from pipeline.release.raw_names import raw_names

Arrays = Mapping[str, np.ndarray]

# Of a standardised number: it is computed in another graph, and may have been read from text.
_TOLERANCE = 1e-6
_LONGEST = 40  # characters of a value


@dataclasses.dataclass
class _Found:
    rows: int = 0
    example: str = ""


class Blame:
    """Compares the inputs of a model, batch by batch, and counts by feature the rows that differ."""

    def __init__(self, preprocess: Preprocess, schema: Schema) -> None:
        self._preprocess = preprocess
        self._names = raw_names(schema)
        self._found: dict[str, _Found] = {}

    def compare(self, training: Arrays, serving: Arrays, asked: Arrays) -> None:
        """Inputs of one batch, by their names in ModelInputs, [n, …] each; and the request's columns."""
        for feature in self._names:
            differs = np.zeros(len(next(iter(asked.values()))), bool)
            example = ""
            for name, at in self._columns(feature):
                pair = _column(training[name], at), _column(serving[self._served(name)], at)
                rows = _differ(*pair)
                if rows.any() and not example:
                    row = int(rows.argmax())
                    value = asked[self._names[feature]][row]
                    kind = "id " if name == "categories" else ""
                    example = _example(value, *(each[row] for each in pair), kind=kind)
                differs |= rows
            self._add(feature, int(differs.sum()), example)

    def features(self) -> list[FeatureSkew]:
        """Those that differ, the most rows first."""
        found = [
            FeatureSkew(feature=name, rows=each.rows, example=each.example)
            for name, each in self._found.items()
        ]
        return sorted(found, key=lambda each: -each.rows)

    def _columns(self, feature: str) -> Iterator[tuple[str, int | None]]:
        """Where a feature stands among the model's inputs: a tensor's name, and its column; None: all."""
        for name, columns in self._preprocess.columns.items():
            yield from ((name, at) for at, column in enumerate(columns) if column == feature)
        if feature in self._preprocess.inputs.sequences:
            yield feature, None
        if self._preprocess.image and self._preprocess.image.name == feature:
            yield "image", None

    def _served(self, name: str) -> str:
        """The name of an input in the export, which renames what TensorFlow cannot take."""
        return self._names[name] if name in self._preprocess.inputs.sequences else name

    def _add(self, feature: str, rows: int, example: str) -> None:
        if rows:
            found = self._found.setdefault(feature, _Found(example=example))
            found.rows += rows


def _column(values: np.ndarray, at: int | None) -> np.ndarray:
    return values if at is None else values[:, at]


def _differ(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Bool [n]: the rows in which the model gets something else."""
    if one.shape != other.shape:
        return np.ones(len(one), bool)
    if not np.issubdtype(one.dtype, np.floating):
        different = one != other
    else:
        exact, found = one.astype(np.float64), other.astype(np.float64)
        different = ~(np.abs(exact - found) <= _TOLERANCE * np.maximum(1.0, np.abs(exact)))
    return different.reshape(len(one), -1).any(axis=1)


def _example(value: object, one: np.ndarray, other: np.ndarray, *, kind: str) -> str:
    return f"{_told(value)} is {kind}{_told(one)} in training, {kind}{_told(other)} in serving"


def _told(value: object) -> str:
    """A value, short: text in quotes, a number, or the size of an array."""
    if isinstance(value, bytes):
        text = value.decode("utf-8", "backslashreplace")
        return f"'{text[:_LONGEST]}{'…' * (len(text) > _LONGEST)}'"
    array = np.asarray(value)
    return f"{array.item():g}" if array.ndim == 0 else f"{array.dtype}{list(array.shape)}"
