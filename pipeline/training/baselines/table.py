"""Rows of a dataset as columns that scikit-learn fits: numbers, categories and texts."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pipeline.data.dataset import blocks
from pipeline.data.dataset.selection import Selection
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.preprocessing import datetimes
from pipeline.data.reading.source import Rows, stored_rows
from pipeline.data.schema import times
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import (
    Categorical,
    Categories,
    Datetime,
    FeatureTypeTable,
    Image,
    Label,
    Numeric,
    Tensor,
    Text,
    Tokens,
)
from pipeline.data.schema.schema import Schema

_NO_WORD = re.compile(r"\W")  # what is no part of a word to TF-IDF
NUMBERS, CATEGORIES, TEXTS, NOT_TABULAR = "numbers", "categories", "texts", "not tabular"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    """What a feature gives.

    Attributes:
      kind: the kind of its columns.
      width: (feature) → its number of columns.
      read: (feature, its values of n rows, statistics) → its columns, [n, width].
    """

    kind: str
    width: Callable[[Feature], int] = lambda feature: 1
    read: Callable[[Feature, np.ndarray, SplitStatistics], np.ndarray]


def _numbers(feature: Feature, values: np.ndarray, statistics: SplitStatistics) -> np.ndarray:
    return values.reshape(len(values), -1).astype(np.float64)


def _texts(feature: Feature, values: np.ndarray, statistics: SplitStatistics) -> np.ndarray:
    """Strings are bytes in records; integers stay."""
    found = np.empty((len(values), 1), object)
    found[:, 0] = [_decoded(each) for each in values]
    return found


def _decoded(value: bytes | int) -> str | int:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _names(feature: Categories, values: np.ndarray, statistics: SplitStatistics) -> np.ndarray:
    """Lists as texts in which each name is one word: `is_new_york is_x`. TF-IDF drops words of one letter."""
    found = np.empty((len(values), 1), object)
    none = (b"", "", blocks.MISSING)
    found[:, 0] = [
        " ".join(f"is_{_NO_WORD.sub('_', str(_decoded(each)))}" for each in row if each not in none)
        for row in values.tolist()
    ]
    return found


def _times(feature: Datetime, values: np.ndarray, statistics: SplitStatistics) -> np.ndarray:
    """The time, its hour, weekday and month as a model gets them; NaN where it is missing."""
    columns = datetimes.time_columns(feature, statistics.features[feature.name])(values).numpy()
    return np.where((values == times.NOT_A_TIME)[:, None], np.nan, columns.astype(np.float64))


_BY_TYPE: FeatureTypeTable[Columns] = FeatureTypeTable(
    where=__name__,
    question="what scikit-learn's models get of a feature",
    entry="Columns, with their `kind` and `read` of (feature, values [n, …], SplitStatistics) to them",
    entries={
        Numeric: Columns(kind=NUMBERS, read=_numbers),
        Tensor: Columns(kind=NUMBERS, width=lambda feature: math.prod(feature.shape), read=_numbers),
        Datetime: Columns(kind=NUMBERS, width=lambda feature: datetimes.WIDTH, read=_times),
        Categorical: Columns(kind=CATEGORIES, read=_texts),
        Categories: Columns(kind=TEXTS, read=_names),
        Text: Columns(kind=TEXTS, read=_texts),
        Image: Columns(kind=NOT_TABULAR, read=_texts),
        Tokens: Columns(kind=NOT_TABULAR, read=_texts),
        Label: Columns(kind=NOT_TABULAR, read=_texts),
    },
)


def is_tabular(schema: Schema) -> bool:
    """Returns whether all inputs are numbers, categories, times and texts, and there are some."""
    kinds = {_BY_TYPE.of(feature).kind for feature in schema.inputs}
    return bool(kinds) and NOT_TABULAR not in kinds


def width(schema: Schema) -> int:
    """Counts the columns of a table."""
    return sum(_BY_TYPE.of(feature).width(feature) for feature in schema.inputs)


def places(schema: Schema) -> Iterator[tuple[Feature, range]]:
    """Yields each input, and the numbers of its columns in a table."""
    first = 0
    for feature in schema.inputs:
        last = first + _BY_TYPE.of(feature).width(feature)
        yield feature, range(first, last)
        first = last


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """n rows.

    Attributes:
      cells: object [n, columns]: float64, NaN where a number is missing; str or int of a category; str of a
        text.
      kinds: the kind of each column.
      labels: as they are stored, int64 classes or float32 values [n].
      weights: float64 [n]; None: all rows count the same.
    """

    cells: np.ndarray
    kinds: tuple[str, ...]
    labels: np.ndarray
    weights: np.ndarray | None = None

    def of(self, kind: str) -> list[int]:
        """The numbers of the columns of a kind."""
        return [at for at, each in enumerate(self.kinds) if each == kind]

    def only(self, columns: Sequence[int]) -> "Table":
        """Some columns, by their numbers."""
        kinds = tuple(self.kinds[at] for at in columns)
        return dataclasses.replace(self, cells=self.cells[:, list(columns)], kinds=kinds)

    def take(self, rows: np.ndarray) -> "Table":
        """Some rows, by their indices."""
        weights = None if self.weights is None else self.weights[rows]
        return dataclasses.replace(self, cells=self.cells[rows], labels=self.labels[rows], weights=weights)


def read_table(
    selection: Selection,
    positions: Sequence[int] | np.ndarray,
    *,
    inputs: Schema,
    statistics: SplitStatistics,
    weights: Numeric | None = None,
) -> Table:
    """Reads rows by their position in stored order.

    Args:
      inputs: the features that a model is fed with.
      weights: the column that weighs the rows.

    Raises:
      InputError: a record is damaged.
    """
    rows: Rows = stored_rows(selection)[np.asarray(positions)]
    parts, kinds = [], []
    for feature in inputs.inputs:
        columns = _BY_TYPE.of(feature)
        parts.append(columns.read(feature, rows[feature.name], statistics).astype(object))
        kinds += [columns.kind] * parts[-1].shape[1]
    stored = None if weights is None else rows[weights.name].astype(np.float64) + weights.offset
    return Table(
        cells=np.concatenate(parts, axis=1),
        kinds=tuple(kinds),
        labels=rows[inputs.label.name],
        weights=stored,
    )
