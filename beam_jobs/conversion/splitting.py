"""Which split each raw row goes to: its input's, by the hash of its group, or by the schema's cut-offs."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import text, typed
from beam_jobs.cells.problems import Problems
from beam_jobs.conversion.assignment import SPLIT, hash_ids, row_ids, split_of
from beam_jobs.conversion.plan import Plan
from beam_jobs.sources.pieces.source import RawRows
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.kinds import Numeric
from pipeline.data.schema.schema import Schema
from pipeline.data.schema.split_by import SplitBy

_MISSING = "no value to split by"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Splitting:
    """`index`, int64 [rows], numbers `splits`. `problems`: column and reason of rows that have no split."""

    splits: tuple[str, ...]
    index: np.ndarray
    problems: Mapping[int, tuple[str, str]] = dataclasses.field(default_factory=dict)


def split_rows(raw: RawRows, ids: pa.Array, schema: Schema, plan: Plan, *, pinned: str) -> Splitting:
    """The split of each of the raw rows, which `ids`, binary or string [rows], identify.

    Rows that are `pinned` to a split all go there.
    """
    rows = raw.columns.num_rows
    if pinned:
        return Splitting(splits=(pinned,), index=np.zeros(rows, np.int64))
    if schema.split_by and schema.split_by.starts:
        return _by_cut_offs(raw, schema, schema.split_by)
    groups, problems = ids if raw.groups is None else raw.groups, {}
    if schema.split_by:
        groups = row_ids(raw, schema.split_by.columns)
        problems = _without_group(raw, schema.split_by.columns)
    index = split_of(hash_ids(groups, purpose=SPLIT), list(plan.fractions.values()))
    return Splitting(splits=plan.unpinned, index=index, problems=problems)


def _by_cut_offs(raw: RawRows, schema: Schema, split_by: SplitBy) -> Splitting:
    [column] = split_by.columns
    parsed = typed.parse(_reader(column, schema), raw.column(column), undecoded=raw.undecoded)
    problems = Problems(parsed.problems)
    problems.add(parsed.values.is_null(), _MISSING)
    reached = np.searchsorted(split_by.bounds, parsed.values.fill_null(0).to_numpy(), side="right")
    found = {row: (column, reason) for row, reason in problems.items()}
    return Splitting(splits=split_by.splits, index=reached, problems=found)


def _reader(column: str, schema: Schema) -> Datetime | Numeric:
    """The feature that reads the column, so that its format and clean-up hold here too; else a plain one."""
    kind = Datetime if schema.split_by.is_time else Numeric
    features = (feature for feature in schema.of_kind(kind) if feature.source_column == column)
    return next(features, kind(name=column, missing="mark"))


def _without_group(raw: RawRows, columns: Sequence[str]) -> dict[int, tuple[str, str]]:
    """The rows that lack a value in one of `columns`: they could be of any group."""
    found: dict[int, tuple[str, str]] = {}
    for column in columns:
        empty = pc.equal(text.to_bytes(raw.column(column)), b"").fill_null(True)
        for row in np.flatnonzero(empty.to_numpy(zero_copy_only=False)).tolist():
            found.setdefault(row, (column, _MISSING))
    return found
