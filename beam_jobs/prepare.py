"""Raw rows → conforming, typed rows with their place in the dataset, and rejected rows with their reason."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from beam_jobs import assign, parse
from beam_jobs.plan import Plan
from beam_jobs.progress import Progress
from beam_jobs.rejected import Rejection, shown
from beam_jobs.scatter import Scatter, Sent, ShardKey
from beam_jobs.sources.source import Piece, RawRows, Source
from beam_jobs.spill import Spill
from pipeline.data.errors import InputError
from pipeline.data.schema import Schema

READ = "read"
REJECTED = "rejected"

# The column with each row's order hash. A feature's name is never empty, so the two cannot collide.
ORDER_COLUMN = ""


def arrow_schema(schema: Schema) -> pa.Schema:
    """How conforming rows travel: the order hash, then one column a feature."""
    features = [(feature.name, parse.arrow_type(feature)) for feature in schema.features]
    return pa.schema([(ORDER_COLUMN, pa.uint64()), *features])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """Conforming rows of one batch, where each came from in that batch, and the rows left out."""

    rows: pa.RecordBatch
    kept: np.ndarray  # int64 [rows], positions in the raw batch
    rejected: tuple[Rejection, ...]


def prepare(raw: RawRows, schema: Schema, ids: pa.Array) -> Prepared:
    """Cleans, parses and validates one batch; raises InputError if its columns are not the schema's."""
    columns = {
        feature.name: parse.parse(
            feature, raw.column(feature.source_column), directory=raw.directory, undecoded=raw.undecoded
        )
        for feature in schema.features
    }
    problems = _first_problems(schema, columns)
    kept = np.delete(np.arange(raw.columns.num_rows), list(problems))
    order = pa.array(assign.hash_ids(ids, purpose=assign.ORDER))
    values = [order, *(column.values for column in columns.values())]
    rows = pa.record_batch(values, schema=arrow_schema(schema))
    return Prepared(
        rows=rows.take(pa.array(kept)) if problems else rows,
        kept=kept,
        rejected=tuple(_rejection(raw, row, *problems[row]) for row in sorted(problems)),
    )


def check_columns(names: list[str], schema: Schema, source: str, *, sparse: bool = False) -> None:
    """Raises InputError if a column is undeclared or, unless `sparse`, one that is read is absent."""
    # Ignoring `address` ignores `address.zip`.
    ignored = tuple(f"{name}." for name in schema.ignore)
    known = {*schema.columns, *schema.ignore}
    undeclared = [name for name in names if name not in known and not name.startswith(ignored)]
    if undeclared:
        raise InputError(
            f"input {source}",
            received=f"column {', '.join(map(repr, undeclared))}, which the schema does not know",
            expected=f"columns {', '.join(schema.columns)}",
            action="Add a feature for it to the schema, or name it with the reason under 'ignore'.",
        )
    absent = [name for name in (*schema.columns, *schema.row_id) if name not in names]
    if absent and not sparse:
        raise InputError(
            f"input {source}",
            received=f"columns {', '.join(names)}",
            expected=f"also {', '.join(map(repr, absent))}, which the schema reads",
            action="Correct the schema or the file; if the file has no header, give --column_names.",
        )


class Prepare(beam.DoFn):
    """Piece → (split, shard), `Sent` rows. Outputs aside: rows READ (int) and REJECTED (Rejection)."""

    def __init__(
        self, source: Source, schema: Schema, plan: Plan, *, spill: Spill, progress: Progress
    ) -> None:
        self._source = source
        self._schema = schema
        self._scatter = Scatter(plan, spill)
        self._progress = progress

    def process(
        self, piece: Piece
    ) -> Iterator[
        tuple[ShardKey, Sent]
        | TaggedOutput[Literal["read"], int]
        | TaggedOutput[Literal["rejected"], Rejection]
    ]:
        for raw in self._source.read(piece):
            check_columns(raw.columns.schema.names, self._schema, piece.paths[0], sparse=raw.sparse)
            ids = _row_ids(raw, self._schema)
            prepared = prepare(raw, self._schema, ids)
            for rejection in (*raw.rejected, *prepared.rejected):
                yield TaggedOutput(REJECTED, rejection)
            groups = ids if raw.groups is None else raw.groups
            groups = groups.take(pa.array(prepared.kept))
            yield from self._scatter(prepared.rows, groups, pinned=piece.split)
            self._progress.add(read=raw.rows_read)
            yield TaggedOutput(READ, raw.rows_read)


def _row_ids(raw: RawRows, schema: Schema) -> pa.Array:
    if raw.ids is not None and not schema.row_id:
        return raw.ids
    named = {name: raw.column(name) for name in schema.row_id}
    return assign.row_ids(pa.record_batch(named) if named else raw.columns, schema.row_id)


def _first_problems(schema: Schema, columns: Mapping[str, parse.Column]) -> dict[int, tuple[str, str]]:
    """Raw column and reason for each bad row: a row is rejected once, whatever else is wrong with it."""
    problems: dict[int, tuple[str, str]] = {}
    for feature in schema.features:
        for row, reason in columns[feature.name].problems.items():
            problems.setdefault(row, (feature.source_column, reason))
    return problems


def _rejection(raw: RawRows, row: int, column: str, reason: str) -> Rejection:
    source, number = raw.place(row)
    cell = raw.column(column)[row].as_py()
    return Rejection(source=source, row=number, column=column, reason=reason, raw=shown(cell))
