"""Rows of one group → one record: the rows of a shard in the order of their groups, and folded."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells.typed import GROUP_COLUMN, ORDER_COLUMN, ORIGIN_COLUMN, ROW_COLUMN
from beam_jobs.conversion.records import fill_of
from beam_jobs.sources.source import Rejection, excerpt
from pipeline.data.schema.feature_types import PADDING, Label
from pipeline.data.schema.schema import Schema


def in_groups(rows: pa.RecordBatch, schema: Schema) -> tuple[pa.RecordBatch, list[Rejection]]:
    """Puts rows of the same group next to each other, at most `group.length` of each; gives the others, too.

    The rows of a group stand in the order of their hashes, which has nothing to do with their labels. So
    those that are kept are drawn at random, and they are the same on every run.

    Args:
      rows: have `cells.typed.arrow_schema`, sorted by the order hash; equal hashes by records.
    """
    rows = rows.take(pa.array(_by_group(rows)))
    starts, sizes = _groups(rows)
    place = np.arange(rows.num_rows) - np.repeat(starts, sizes)  # each row's place in its group
    kept = place < schema.group.length
    if kept.all():
        return rows, []
    keys = rows.column(GROUP_COLUMN).filter(pa.array(~kept)).to_pylist()
    rejected = [_too_many(key, schema) for key in keys]
    return rows.filter(pa.array(kept)), rejected


def fold(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Rows of `in_groups` → one row for each group, whose columns are lists of `group.length` values.

    A group that is shorter is filled up with copies of its rows, whose label is PADDING: so every value of a
    record conforms to the schema. The origin of a group is that of its first row.
    """
    starts, sizes = _groups(rows)
    place = np.arange(schema.group.length)
    chosen = pa.array((starts[:, None] + place % sizes[:, None]).reshape(-1))  # (groups * length,)
    is_padding = pa.array((place >= sizes[:, None]).reshape(-1))
    names = [name for name in (ORDER_COLUMN, ORIGIN_COLUMN) if name in rows.schema.names]
    columns = {name: rows.column(name).take(pa.array(starts)) for name in names}
    for feature in schema.of_rows.features:
        values = rows.column(feature.name)
        values = (values.fill_null(fill_of(feature)) if values.null_count else values).take(chosen)
        if isinstance(feature, Label):
            values = pc.if_else(is_padding, pa.scalar(PADDING, values.type), values)
        columns[feature.name] = pa.FixedSizeListArray.from_arrays(values, schema.group.length)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _by_group(rows: pa.RecordBatch) -> np.ndarray:
    """Positions of the rows by group, int64 [rows]; two keys of one hash are two groups."""
    keys = rows.column(GROUP_COLUMN).dictionary_encode()
    rank = np.argsort(np.argsort(np.array(keys.dictionary.to_pylist(), object)))
    within, order = (rows.column(name).to_numpy() for name in (ROW_COLUMN, ORDER_COLUMN))
    return np.lexsort((within, rank[keys.indices.to_numpy()], order))


def _groups(rows: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """Where each group starts, and the number of its rows, int64 [groups] each."""
    codes = rows.column(GROUP_COLUMN).dictionary_encode().indices.to_numpy()
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    return starts, np.diff(starts, append=rows.num_rows)


def _too_many(key: bytes, schema: Schema) -> Rejection:
    group = schema.group
    return Rejection(
        source=f"a group by '{group.column}'",
        row=None,
        column=group.column,
        reason=f"its group has more than {group.length:,} rows, the 'length' of the schema's group",
        raw=excerpt(key.decode(errors="replace")),
    )
