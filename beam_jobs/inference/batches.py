"""Raw rows → batches of serialised examples, with the keys of their rows."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Literal

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from beam_jobs.cells import text
from beam_jobs.conversion.preparation import TypedRows, check_present, type_rows
from beam_jobs.conversion.records import encode
from beam_jobs.conversion.writer import load_images
from beam_jobs.launch.outcome import LINES, NOTED, READ, REJECTED, note
from beam_jobs.launch.run import Progress
from beam_jobs.sources.source import InputSplit, RawRows, Rejection, Source, read_split
from pipeline.base.errors import InputError, did_you_mean
from pipeline.data.schema.schema import Schema

_SOURCE_COLUMN, _ROW_COLUMN = "source", "row"
_KEYS = ""  # the column of the keys: no feature has an empty name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows for one call of the model: the `ordinal`-th batch of an input split."""

    input_split: int
    ordinal: int
    keys: bytes  # the key columns, as an Arrow stream
    examples: tuple[bytes, ...]  # serialised tf.train.Examples


def reading_schema(schema: Schema, keys: Sequence[str]) -> Schema:
    """Returns the schema of what is read: the model's features and the keys, but no label."""
    return dataclasses.replace(schema, features=schema.inputs, row_id=tuple(keys), split_by=None)


@dataclasses.dataclass(eq=False, kw_only=True)
class MakeBatches(beam.DoFn):
    """(number, InputSplit) → Batch; its other outputs are those of `launch/outcome`."""

    source: Source
    schema: Schema  # from `reading_schema`
    rows: int  # rows in one Batch, at most
    progress: Progress

    def process(
        self, element: tuple[int, InputSplit]
    ) -> Iterator[
        Batch
        | TaggedOutput[Literal["read"], int]
        | TaggedOutput[Literal["rejected"], Rejection]
        | TaggedOutput[Literal["lines"], tuple[str, int]]
        | TaggedOutput[Literal["noted"], tuple[str, int]]
    ]:
        number, input_split = element
        ordinal = lines = 0
        for raw in read_split(self.source, input_split):
            if not raw.sparse:
                _check_keys(self.schema, raw.columns.schema.names, input_split.paths[0])
                check_present(raw.columns.schema.names, self.schema, input_split.paths[0])
            typed = type_rows(raw, self.schema)
            rows, unreadable = self._with_keys(raw, typed, root=input_split.root)
            for rejection in raw.reported([*typed.rejected, *unreadable]):
                yield TaggedOutput(REJECTED, rejection)
            yield from (TaggedOutput(NOTED, counted) for counted in typed.notes.items())
            for name, counts in raw.counts.items():
                yield TaggedOutput(NOTED, (note(name, input_split.split), int(counts.sum())))
            for start in range(0, rows.num_rows, self.rows):
                part = rows.slice(start, self.rows)
                yield Batch(
                    input_split=number,
                    ordinal=ordinal,
                    keys=_serialized(pa.RecordBatch.from_struct_array(part.column(_KEYS))),
                    examples=tuple(encode(part, self.schema).to_pylist()),
                )
                ordinal += 1
            self.progress.add(read=raw.rows_read)
            yield TaggedOutput(READ, raw.rows_read)
            lines = max(lines, raw.lines)
        if input_split.end is not None:
            yield TaggedOutput(LINES, (input_split.name, lines))

    def _with_keys(
        self, raw: RawRows, typed: TypedRows, *, root: str
    ) -> tuple[pa.RecordBatch, Sequence[Rejection]]:
        """Typed rows with their keys and images, and the rows whose images cannot be read."""
        keys = _key_columns(raw, self.schema.row_id).to_struct_array()
        rows = typed.rows.append_column(_KEYS, typed.of_kept(keys))
        return load_images(rows, self.schema, root=root)


def _key_columns(raw: RawRows, names: Sequence[str]) -> pa.RecordBatch:
    """Columns `names`, [rows], or the origin of each row if none are named."""
    if names:
        return pa.record_batch({name: _key_column(raw, name) for name in names})
    rows = raw.columns.num_rows
    sources = [raw.sources] * rows if isinstance(raw.sources, str) else raw.sources
    numbers = pa.nulls(rows, pa.int64()) if raw.numbers is None else pa.array(raw.numbers, pa.int64())
    return pa.record_batch({_SOURCE_COLUMN: pa.array(sources, pa.string()), _ROW_COLUMN: numbers})


def _key_column(raw: RawRows, name: str) -> pa.Array:
    """Returns a column. It is text where each row names its columns, because each batch may find another
    type.
    """
    column = raw.column(name)
    return _text(text.to_bytes(column) if raw.sparse else column)


def _check_keys(schema: Schema, names: Sequence[str], source: str) -> None:
    """Raises InputError if only keys are absent; where features are absent too, `check_present` names the
    cause.
    """
    there = set(names)
    absent = [key for key in schema.row_id if key not in there]
    if absent and there.issuperset(schema.columns):
        raise InputError(
            "--keys",
            received=f"'{absent[0]}'",
            expected=f"columns of {source}: {', '.join(names)}",
            action=did_you_mean(absent[0], names, otherwise="Correct --keys, or leave it out."),
        )


def _serialized(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return sink.getvalue().to_pybytes()


def _text(column: pa.Array) -> pa.Array:
    """Bytes as a string column, with what is not UTF-8 escaped: tables of strings are easier to use."""
    if not pa.types.is_binary(column.type) and not pa.types.is_large_binary(column.type):
        return column
    values = (
        None if value is None else value.decode("utf-8", "backslashreplace") for value in column.to_pylist()
    )
    return pa.array(values, pa.string())
