"""Raw rows → typed rows on the way to their shards: type, put into the order of the hash, assign."""

import dataclasses
from collections.abc import Iterator
from typing import Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from beam_jobs.cells.rows import ORDER_COLUMN, ORIGIN_COLUMN
from beam_jobs.conversion import assignment
from beam_jobs.conversion.assignment import Sent, ShardKey
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.shuffle_files import Spill
from beam_jobs.conversion.splitting import split_rows
from beam_jobs.conversion.typed_rows import check_declared, check_present, type_rows
from beam_jobs.launch.outcome import LINES, READ, REJECTED
from beam_jobs.launch.progress import Progress
from beam_jobs.sources.pieces.rejections import Rejection
from beam_jobs.sources.pieces.source import Piece, RawRows, Source
from pipeline.data.schema.schema import Schema


class Prepare(beam.DoFn):
    """Piece → (split, shard), `Sent` rows. Outputs aside: rows READ (int), REJECTED (Rejection) and LINES."""

    def __init__(
        self,
        source: Source,
        schema: Schema,
        plan: Plan,
        *,
        spill: Spill,
        progress: Progress,
        keeps_rejected_raw: bool = True,
    ) -> None:
        self._source = source
        self._schema = schema
        self._plan = dataclasses.replace(plan, pieces=())  # a worker is sent its own piece
        self._spill = spill
        self._progress = progress
        self._keeps_rejected_raw = keeps_rejected_raw

    def process(
        self, piece: Piece
    ) -> Iterator[
        tuple[ShardKey, Sent]
        | TaggedOutput[Literal["read"], int]
        | TaggedOutput[Literal["rejected"], Rejection]
        | TaggedOutput[Literal["lines"], tuple[str, int]]
    ]:
        lines = 0
        for raw in self._source.read(piece) if piece.bytes else ():  # a file without a byte has no header
            self._check_columns(raw, piece.paths[0])
            ids = _row_ids(raw, self._schema)
            split = split_rows(raw, ids, self._schema, self._plan, pinned=piece.split)
            typed = type_rows(raw, self._schema, unplaced=split.problems)
            for rejection in (*raw.rejected, *typed.rejected):
                kept = rejection if self._keeps_rejected_raw else dataclasses.replace(rejection, raw="")
                yield TaggedOutput(REJECTED, kept)
            places = raw.places(piece)[typed.kept] if self._plan.origins else None
            rows, index = _with_order(typed.rows, typed.of_kept(ids), places), split.index[typed.kept]
            yield from assignment.scatter(rows, index, self._plan, splits=split.splits, spill=self._spill)
            self._progress.add(read=raw.rows_read)
            yield TaggedOutput(READ, raw.rows_read)
            lines = max(lines, raw.lines)
        if piece.end is not None:
            yield TaggedOutput(LINES, (piece.name, lines))

    def _check_columns(self, raw: RawRows, path: str) -> None:
        names = raw.columns.schema.names
        check_declared(names, self._schema, path)
        if not raw.sparse:
            check_present(names, self._schema, path)


def _row_ids(raw: RawRows, schema: Schema) -> pa.Array:
    """What identifies each row, binary or string [rows]: the cells of `row_id`, else what the source says.

    Where a source says nothing, the cells that the schema reads do: an ignored column, such as the time
    of loading, moves no row.
    """
    if raw.ids is not None and not schema.row_id:
        return raw.ids
    return assignment.row_ids(raw, schema.row_id or schema.columns)


def _with_order(rows: pa.RecordBatch, ids: pa.Array, places: np.ndarray | None) -> pa.RecordBatch:
    """`rows` with the order hash of their `ids` in front, and `places`: see `cells.rows.arrow_schema`."""
    if places is not None:
        rows = rows.add_column(0, pa.field(ORIGIN_COLUMN, pa.uint64()), pa.array(places))
    order = pa.array(assignment.hash_ids(ids, purpose=assignment.ORDER))
    return rows.add_column(0, pa.field(ORDER_COLUMN, order.type), order)
