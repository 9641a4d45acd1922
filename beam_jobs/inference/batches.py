"""Raw rows → batches of serialised examples that still know which rows they are."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Literal

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from beam_jobs.encode import encode
from beam_jobs.load_images import load_images
from beam_jobs.prepare import ORDER_COLUMN, READ, REJECTED, check_columns, prepare
from beam_jobs.progress import Progress
from beam_jobs.rejected import Rejection
from beam_jobs.sources.source import Piece, RawRows, Source
from pipeline.data.schema import Schema

SOURCE_COLUMN, ROW_COLUMN = "source", "row"
_KEYS = ORDER_COLUMN  # keys take the place of the order hash, which predictions have no use for


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows for one call of the model: the `ordinal`-th batch of a piece."""

    piece: int
    ordinal: int
    keys: bytes  # the key columns, as an Arrow stream
    examples: tuple[bytes, ...]  # serialised tf.train.Examples


def reading_schema(schema: Schema, keys: Sequence[str]) -> Schema:
    """What is read of the input: the model's input features and the keys, but no label."""
    return dataclasses.replace(schema, features=schema.inputs, row_id=tuple(keys))


class MakeBatches(beam.DoFn):
    """(number, Piece) → Batch. Outputs aside: rows READ (int) and REJECTED (Rejection)."""

    def __init__(self, source: Source, schema: Schema, *, rows: int, progress: Progress) -> None:
        self._source = source
        self._schema = schema  # from `reading_schema`
        self._rows = rows  # at most, in one Batch
        self._progress = progress

    def process(
        self, element: tuple[int, Piece]
    ) -> Iterator[Batch | TaggedOutput[Literal["read"], int] | TaggedOutput[Literal["rejected"], Rejection]]:
        number, piece = element
        ordinal = 0
        for raw in self._source.read(piece):
            self._check_columns(raw, piece)
            rows, rejected = self._conforming(raw, piece)
            for rejection in (*raw.rejected, *rejected):
                yield TaggedOutput(REJECTED, rejection)
            for start in range(0, rows.num_rows, self._rows):
                part = rows.slice(start, self._rows)
                yield Batch(
                    piece=number,
                    ordinal=ordinal,
                    keys=_serialized(pa.RecordBatch.from_struct_array(part.column(_KEYS))),
                    examples=tuple(encode(part, self._schema).to_pylist()),
                )
                ordinal += 1
            self._progress.add(read=raw.rows_read)
            yield TaggedOutput(READ, raw.rows_read)

    def _check_columns(self, raw: RawRows, piece: Piece) -> None:
        """Raises InputError where a column is absent; what the model does not read is left alone."""
        names = raw.columns.schema.names
        unread = dataclasses.replace(self._schema, ignore=dict.fromkeys(names, "not read"))
        check_columns(names, unread, piece.paths[0], sparse=raw.sparse)

    def _conforming(self, raw: RawRows, piece: Piece) -> tuple[pa.RecordBatch, list[Rejection]]:
        """Typed rows with their keys, and the rows left out."""
        prepared = prepare(raw, self._schema, pa.array([b""] * raw.columns.num_rows, pa.binary()))
        keys = key_columns(raw, self._schema.row_id).take(pa.array(prepared.kept))
        rows = prepared.rows.set_column(0, _KEYS, keys.to_struct_array())
        rows, unreadable = load_images(rows, self._schema, root=piece.root)
        return rows, [*prepared.rejected, *unreadable]


def key_columns(raw: RawRows, names: Sequence[str]) -> pa.RecordBatch:
    """Columns `names` as they are or, if none are named, where each row came from."""
    if names:
        return pa.record_batch({name: _text(raw.column(name)) for name in names})
    rows = range(raw.columns.num_rows)
    places = [raw.place(row) for row in rows]
    return pa.record_batch(
        {
            SOURCE_COLUMN: pa.array([source for source, _ in places], pa.string()),
            ROW_COLUMN: pa.array([number for _, number in places], pa.int64()),
        }
    )


def _serialized(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return sink.getvalue().to_pybytes()


def _text(column: pa.Array) -> pa.Array:
    """Text formats give bytes, which may not be UTF-8; Parquet files of strings are handier to use."""
    if not pa.types.is_binary(column.type) and not pa.types.is_large_binary(column.type):
        return column
    values = (
        None if value is None else value.decode("utf-8", "backslashreplace") for value in column.to_pylist()
    )
    return pa.array(values, pa.string())
