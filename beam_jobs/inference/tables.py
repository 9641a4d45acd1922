"""Predictions of one piece as a table, and the files that hold it."""

import dataclasses
import hashlib
import uuid
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from apache_beam.io.filesystems import FileSystems

from beam_jobs.encode import encode
from beam_jobs.inference.model import Predicted
from beam_jobs.progress import Progress
from beam_jobs.tfrecord import frame
from pipeline.data.errors import InputError
from pipeline.data.feature import Feature
from pipeline.data.features import Label, Numeric, Tensor, Text
from pipeline.data.schema import Schema

CLASS_COLUMN = "class"


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenFile:
    """`path` is where it lies until it is published as `file_name`."""

    path: str
    file_name: str
    rows: int
    bytes: int
    sha256: str


class WritePredictions(beam.DoFn):
    """(piece, Predicted*) → WrittenFile, its rows in the order in which they were read."""

    def __init__(
        self, label: Label, *, file_format: str, pieces: int, directory: str, progress: Progress
    ) -> None:
        self._label = label
        self._format = file_format
        self._pieces = pieces
        self._directory = directory
        self._progress = progress

    def process(self, element: tuple[int, Iterable[Predicted]]) -> Iterator[WrittenFile]:
        piece, predicted = element
        ordered = sorted(predicted, key=lambda part: part.ordinal)
        table = pa.Table.from_batches([predictions(part, self._label) for part in ordered])
        content = _ENCODERS[self._format](table)
        name = file_name(piece, self._pieces, self._format)
        # A runner may write a file twice at once; each attempt has its own, one is published.
        path = FileSystems.join(self._directory, f"{name}.{uuid.uuid4().hex}")
        with FileSystems.create(path, compression_type="uncompressed") as file:
            file.write(content)
        self._progress.add(written=table.num_rows)
        digest = hashlib.sha256(content).hexdigest()
        yield WrittenFile(path=path, file_name=name, rows=table.num_rows, bytes=len(content), sha256=digest)


def file_name(piece: int, pieces: int, file_format: str) -> str:
    return f"predictions-{piece:05d}-of-{pieces:05d}.{file_format}"


def predictions(predicted: Predicted, label: Label) -> pa.RecordBatch:
    """Key columns, then the most probable class and all probabilities, or the value of a regression."""
    [keys] = pa.ipc.open_stream(predicted.keys)
    _check_names(keys.schema.names, {CLASS_COLUMN, *predicted.outputs})
    columns: dict[str, pa.Array] = dict(zip(keys.schema.names, keys.columns, strict=True))
    for name, values in predicted.outputs.items():
        if label.classes:
            best = pa.array(np.argmax(values, axis=1))
            columns[CLASS_COLUMN] = pa.array(label.classes, pa.string()).take(best)
        columns[name] = _column(values)
    return pa.record_batch(columns)


def _column(values: np.ndarray) -> pa.Array:
    flat = pa.array(values.reshape(-1), pa.float32())
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def _tfrecord(table: pa.Table) -> bytes:
    """Examples; keys that are neither text nor numbers become text, missing ones "", 0 or NaN."""
    features = tuple(_feature(field) for field in table.schema)
    types = [
        (f.name, pa.string() if isinstance(f, Text) else table.schema.field(f.name).type) for f in features
    ]
    [rows] = table.cast(pa.schema(types)).combine_chunks().to_batches()
    return frame(encode(rows, Schema(name="predictions", features=features)).to_pylist())


def _feature(field: pa.Field) -> Feature:
    if pa.types.is_fixed_size_list(field.type):
        return Tensor(name=field.name, dimensions=(field.type.list_size,))
    if pa.types.is_integer(field.type):
        return Numeric(name=field.name, number="int64", missing="default", default=0)
    if pa.types.is_floating(field.type):
        return Numeric(name=field.name, missing="mark")
    return Text(name=field.name, missing="mark")


_ENCODERS = {"parquet": _parquet, "tfrecord": _tfrecord}
FORMATS = tuple(_ENCODERS)


def _check_names(keys: Iterable[str], outputs: set[str]) -> None:
    taken = [name for name in keys if name in outputs]
    if taken:
        raise InputError(
            "--keys",
            received=f"column '{taken[0]}'",
            expected="no name that a column of the predictions has",
            action="Rename the column in the input.",
        )
