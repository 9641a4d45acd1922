"""Samples rows of a holdout: as records, as features, as training's inputs, and as requests of clients."""

import csv
import dataclasses
import io
import itertools
import json
import math
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.base.tracing import no_autograph
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.origins import reader
from pipeline.data.origins.files import Entry, ends_of_rows
from pipeline.data.origins.reader import RawRow, raw_rows
from pipeline.data.preprocessing import requests
from pipeline.data.preprocessing.preprocess import BY_TYPE, Preprocess
from pipeline.data.reading import parsing, windows
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Label
from pipeline.data.schema.schema import Schema
from pipeline.exporting.raw_inputs import raw_inputs, raw_names
from pipeline.exporting.requests import numpy_arrays
from pipeline.exporting.scoring import StoredRows
from pipeline.training.state.golden import rows_of_groups
from pipeline.training.tasks.registry import task_of

BATCH = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample(StoredRows):
    """Some rows of a dataset; `places` has each row's shard, by name, and its number there.

    Rows of groups stand by themselves, as serving gets them, and their places are not known.
    """

    places: Sequence[tuple[str, int]]
    dataset: Dataset

    def batches(self) -> Iterator["Sample"]:
        """Yields the rows, BATCH at a time: all images at once would fill the memory."""
        for first in range(0, len(self), BATCH):
            rows = slice(first, first + BATCH)
            yield dataclasses.replace(self, stored=self.stored[rows], places=self.places[rows])

    def examples(self) -> tf.Tensor:
        """Returns serialized examples, string [n]."""
        if self.are_records:
            return self.stored
        features = numpy_arrays(self.columns)
        return tf.constant(np.array(requests.serialize(features, self.schema), object), tf.string)


def first_rows(selection: Selection, count: int) -> Sample:
    """Returns the first rows of a selection, or of its groups; raises InputError where one of their records
    is damaged.
    """
    schema = selection.dataset.schema
    rows_of_windows = windows.stored_rows(selection).map(no_autograph(lambda _, rows: rows))
    with naming_damage(selection):
        stored = next(iter(rows_of_windows.rebatch(count)))
    if schema.group:
        rows = np.array(rows_of_groups(stored, schema, most=count), object)
        stored = tf.constant(rows, tf.string)
        return Sample(stored=stored, schema=schema.of_rows, places=(), dataset=selection.dataset)
    return Sample(
        stored=stored,
        schema=schema,
        places=list(itertools.islice(_places(selection), count)),
        dataset=selection.dataset,
    )


def _places(selection: Selection) -> Iterator[tuple[str, int]]:
    """Yields the place of every row, in stored order."""
    shards = selection.shards
    for row in itertools.chain.from_iterable(itertools.starmap(range, selection.ranges)):
        shard = shards.shard_of_row(row)
        yield shards.names[shard], row - int(shards.row_starts[shard])


class AsTrained:
    """Computes inputs and predictions with the code of training and evaluation, in one graph.

    Args:
      models: models that predict from the same inputs.
      schema: schema of the rows' dataset.
    """

    def __init__(
        self, preprocess: Preprocess, models: Sequence[keras.Model], label: Label, *, schema: Schema
    ) -> None:
        parts = [task_of(label).split(model) for model in models]

        def compute(rows: tf.Tensor) -> tuple[Mapping[str, tf.Tensor], list[tf.Tensor]]:
            inputs = preprocess(parsing.parse_rows(rows, schema)[0])
            return inputs, [task.answers(label, inputs, part(inputs, training=False)) for part, task in parts]

        self._compute = compute
        self._graph: Callable | None = None

    def __call__(self, sample: Sample) -> tuple[Mapping[str, np.ndarray], list[np.ndarray]]:
        """Returns the models' inputs by name, [n, …] each, and the predictions of each model, [n, …]."""
        if self._graph is None:
            rows = tf.TensorSpec([None, *sample.stored.shape[1:]], sample.stored.dtype)
            self._graph = tf.function(self._compute, input_signature=[rows], autograph=False)
        return tf.nest.map_structure(lambda tensor: tensor.numpy(), self._graph(sample.stored))


# --- Cells of rows in the raw files, CSV and JSON Lines.


Cells = Mapping[str, str]  # cells by column
_UTF_8 = ("", "utf-8", "utf8", "utf-8-sig", "ascii")


class RawCells:
    """Finds the cells of a dataset's rows in the raw files.

    A dataset knows the file and line of each row (pipeline/data/origins), and its schema says how to read
    CSV. Rows of other formats, and of files that are gone or changed, are not found.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        raw = dataset.schema.raw_files
        self._is_readable = str(raw.get("encoding", "")).lower() in _UTF_8
        self._delimiter = {"\\t": "\t"}.get(str(raw.get("delimiter")), str(raw.get("delimiter") or ","))
        quote, escape = str(raw.get("quote", '"')), str(raw.get("escape", "none"))
        self._line_ends = ends_of_rows(quote=quote, escape=escape)
        self._quoting = {
            "quotechar": None if quote == "none" else quote,
            "quoting": csv.QUOTE_NONE if quote == "none" else csv.QUOTE_MINIMAL,
            "escapechar": None if escape == "none" else escape,
        }
        names = raw.get("column_names") or ()
        self._names = tuple(names.split(",") if isinstance(names, str) else names)
        self._has_header = raw.get("header", "yes") == "yes" and not self._names
        self._headers: dict[str, Sequence[str]] = {}

    def of(self, places: Sequence[tuple[str, int]]) -> list[Cells | None]:
        """Returns the cells of each row, given by shard name and number; None where they are not found."""
        if not self._is_readable or not places:
            return [None] * len(places)
        return [self._cells(raw) if raw else None for raw in raw_rows(self._dataset, places)]

    def _cells(self, raw: RawRow) -> Cells | None:
        if raw.text is None:
            return None
        if raw.text.lstrip().startswith("{"):
            return _json_cells(raw.text)
        cells = self._split(raw.text)
        names = self._names_for(raw, len(cells))
        return dict(zip(names, cells, strict=True)) if len(names) == len(cells) else None

    def _split(self, text: str) -> list[str]:
        try:
            text = io.StringIO(text, newline="")
            return next(csv.reader(text, delimiter=self._delimiter, **self._quoting), [])
        except csv.Error:
            return []

    def _names_for(self, raw: RawRow, cells: int) -> Sequence[str]:
        if self._names:
            return self._names
        if not self._has_header:
            return [f"column_{number}" for number in range(1, cells + 1)]
        path = raw.folder + raw.origin.file
        if path not in self._headers:
            self._headers[path] = self._header(pathlib.Path(path))
        return self._headers[path]

    def _header(self, path: pathlib.Path) -> Sequence[str]:
        """Returns the cells of the first line; none where the file cannot be read."""
        if not path.is_file():
            return ()
        whole = Entry(name=path.name, file_bytes=path.stat().st_size)
        first = reader.text_rows(path, whole, [1], self._line_ends).get(1, "")
        return self._split(first.removeprefix("\ufeff"))


def _json_cells(text: str) -> Cells | None:
    """Returns the scalars of an object as CSV spells them; null is empty."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    scalars = {name: value for name, value in document.items() if not isinstance(value, dict | list | bool)}
    return {name: _spelled(value) for name, value in scalars.items()}


def _spelled(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


# --- Requests of clients: the cells of the raw files, where these can be read.


_INT64 = range(-(1 << 63), 1 << 63)


def request_columns(sample: Sample, cells: Sequence[Cells | None], schema: Schema) -> dict[str, np.ndarray]:
    """Returns the arguments of `raw`, by name, [n, …] each.

    A value comes from the row's cell. Text stays as it is, because serving cleans it; a number is what a
    client would read, NaN for an empty cell. Without such a cell, it is the stored value, spelled as in the
    raw data.
    """
    stored = numpy_arrays(raw_inputs(sample.columns, schema))
    names = raw_names(schema)
    for feature in schema.inputs:
        values = stored[names[feature.name]] = stored[names[feature.name]].copy()
        for row, found in enumerate(cells):
            value = _value(feature, found.get(feature.source_column)) if found else None
            if value is not None:
                values[row] = value
    return stored


def _value(feature: Feature, cell: str | None) -> bytes | float | int | None:
    """Returns what a client sends for a cell; None where that is neither text nor a single number."""
    if cell is None or feature.shape:
        return None
    if feature.is_text_in_requests:
        return cell.encode() if BY_TYPE.of(feature).is_text else None
    if feature.dtype == "float32" and not cell.strip():
        return math.nan
    try:
        number = float(cell) if feature.dtype == "float32" else int(cell)
    except ValueError:
        return None
    return number if feature.dtype == "float32" or number in _INT64 else None
