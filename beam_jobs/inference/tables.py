"""Predictions of one input split as a table, and the files that hold it."""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from beam_jobs.conversion.records import encode
from beam_jobs.inference.model import Predicted
from beam_jobs.launch import claims
from beam_jobs.launch.outcome import WrittenFile
from beam_jobs.launch.run import Progress
from beam_jobs.sources.files import write_bytes
from pipeline.base.errors import InputError
from pipeline.data.dataset.tfrecord import frame
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import LABEL_TASKS, Label, LabelGroup, Numeric, Tensor, Text
from pipeline.data.schema.schema import Schema

_CLASS_COLUMN, _CLASSES_COLUMN, _OF_TARGET = "class", "classes", "value"
_ITEMS = "items"
_ANSWER = 0.5  # above this probability a class of a multilabel is an answer


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictionsFile(WrittenFile):
    """The predictions of one input split."""

    keys_with_values: Sequence[str]  # columns of `--keys` in which at least one row has a value


@dataclasses.dataclass(eq=False, kw_only=True)
class WritePredictions(beam.DoFn):
    """(input split, Predicted*) → PredictionsFile, its rows in the order in which they were read."""

    label: Label
    keys: Sequence[str]
    file_format: str
    input_splits: int  # number of input splits of the whole input
    directory: str
    progress: Progress

    def process(self, element: tuple[int, Iterable[Predicted]]) -> Iterator[PredictionsFile]:
        input_split, predicted = element
        ordered = sorted(predicted, key=lambda part: part.ordinal)
        table = pa.Table.from_batches([predictions(part, self.label) for part in ordered])
        content = _ENCODERS[self.file_format](table)
        name = claims.predictions(input_split, self.input_splits, self.file_format)
        path = claims.attempt(self.directory, name)
        write_bytes(path, content)
        self.progress.add(written=table.num_rows)
        digest = hashlib.sha256(content).hexdigest()
        yield PredictionsFile(
            path=path,
            file_name=name,
            rows=table.num_rows,
            bytes=len(content),
            sha256=digest,
            keys_with_values=[key for key in self.keys if table[key].null_count < table.num_rows],
        )


def predictions(predicted: Predicted, label: Label) -> pa.RecordBatch:
    """Key columns, then class and float32 probabilities [rows, classes], or a float32 value [rows].

    A multilabel has the classes whose probability is above one half, as lists of their names. Several targets
    have a column each, called after the target. Tokens have log-probabilities, float32 [rows, tokens, 2].
    Items have the names of the best ones and their scores, [rows, k] each.
    """
    [keys] = pa.ipc.open_stream(predicted.keys)
    columns: dict[str, pa.Array] = dict(zip(keys.schema.names, keys.columns, strict=True))
    for name, values in predicted.outputs.items():
        if label.is_retrieval:
            columns[name] = _nested(values)
            continue
        if _has_targets(label):
            columns |= {
                each: pa.array(np.ascontiguousarray(column), pa.float32())
                for each, column in zip(_outputs(label), values.T, strict=True)
            }
            continue
        if label.classes and label.shape:
            columns[_CLASSES_COLUMN] = _names(values > _ANSWER, label)
        elif label.classes:
            best = pa.array(np.argmax(values, axis=1))
            columns[_CLASS_COLUMN] = pa.array(label.classes, pa.string()).take(best)
        columns[name] = _nested(values)
    return pa.record_batch(columns)


def _names(are_there: np.ndarray, label: Label) -> pa.ListArray:
    """The names of a row's classes, [rows]; are_there: bool [rows, classes]."""
    rows, classes = np.nonzero(are_there)
    ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(are_there)))])
    names = pa.array(label.classes, pa.string()).take(pa.array(classes))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), names)


def _outputs(label: Label) -> list[str]:
    """The columns of a label's predictions."""
    output = LABEL_TASKS[label.task].output
    if label.is_retrieval:
        return [output, _ITEMS]
    if label.classes:
        return [output, _CLASSES_COLUMN if label.shape else _CLASS_COLUMN]
    return [f"{_OF_TARGET}_{name}" for name in label.parts] if _has_targets(label) else [output]


def _has_targets(label: Label) -> bool:
    """Returns whether the label is several numbers."""
    return isinstance(label, LabelGroup) and not label.classes


def _nested(values: np.ndarray) -> pa.Array:
    """Numbers or text [rows, …] as a column of lists, of lists, …"""
    flat = values.reshape(-1)
    is_text = flat.dtype.hasobject
    found = (
        pa.array([each.decode() for each in flat], pa.string()) if is_text else pa.array(flat, pa.float32())
    )
    for size in reversed(values.shape[1:]):
        found = pa.FixedSizeListArray.from_arrays(found, size)
    return found


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def _tfrecord(table: pa.Table) -> bytes:
    """Examples. Keys that are neither text nor numbers become text; missing ones become "", 0 or NaN.

    Lists of names of any length are left out: a record has a fixed number of values.
    """
    table = table.drop_columns([field.name for field in table.schema if pa.types.is_list(field.type)])
    table = table.cast(pa.schema([(field.name, _stored(field.type)) for field in table.schema]))
    features = tuple(_feature(field) for field in table.schema)
    [rows] = table.combine_chunks().to_batches()
    return frame(encode(rows, Schema(name="predictions", features=features)).to_pylist())


def _stored(kind: pa.DataType) -> pa.DataType:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return kind if is_number or pa.types.is_fixed_size_list(kind) else pa.string()


def _feature(field: pa.Field) -> Feature:
    """The feature that stores a column of `_stored` type."""
    if pa.types.is_fixed_size_list(field.type):
        return Tensor(name=field.name, dimensions=tuple(_sizes(field.type)))
    if pa.types.is_integer(field.type):
        return Numeric(name=field.name, number="int64", missing="default", default=0)
    if pa.types.is_floating(field.type):
        return Numeric(name=field.name, missing="mark")
    return Text(name=field.name, missing="mark")


def _sizes(kind: pa.DataType) -> Iterator[int]:
    while pa.types.is_fixed_size_list(kind):
        yield kind.list_size
        kind = kind.value_type


_ENCODERS = {"parquet": _parquet, "tfrecord": _tfrecord}
FORMATS = tuple(_ENCODERS)


def check_keys(keys: Iterable[str], label: Label) -> None:
    """Raises InputError if a key column has the name of a column of the predictions of `label`."""
    outputs = _outputs(label)
    taken = [name for name in keys if name in outputs]
    if taken:
        raise InputError(
            "--keys",
            received=f"column '{taken[0]}'",
            expected="no name that a column of the predictions has",
            action="Rename the column in the input.",
        )
