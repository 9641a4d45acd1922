"""Raw rows → typed rows, and rejected rows with their reason. `convert` and `predict` share it."""

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from beam_jobs.cells import typed
from beam_jobs.cells.rows import value_schema
from beam_jobs.sources.pieces.likely_cause import cause_of_names
from beam_jobs.sources.pieces.rejections import Rejection, shown
from beam_jobs.sources.pieces.source import RawRows
from pipeline.data.errors import InputError
from pipeline.data.nearest import did_you_mean
from pipeline.data.schema.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class TypedRows:
    """The conforming rows of one batch, where each was in that batch, and the rows left out."""

    rows: pa.RecordBatch  # [kept], of `cells.rows.value_schema`
    kept: np.ndarray  # int64 [kept], positions in the raw batch
    rejected: tuple[Rejection, ...]

    def of_kept(self, cells: pa.Array) -> pa.Array:
        """The values of `cells`, [raw rows], that belong to the conforming rows: [kept]."""
        return cells if len(self.kept) == len(cells) else cells.take(pa.array(self.kept))


def type_rows(
    raw: RawRows, schema: Schema, *, unplaced: Mapping[int, tuple[str, str]] = MappingProxyType({})
) -> TypedRows:
    """Cleans, parses and validates one batch, which has every column that `schema` reads.

    `unplaced` has column and reason of the rows that are rejected because they belong to no split.
    """
    columns = {
        feature.name: typed.parse(
            feature,
            raw.column(feature.source_column),
            directory=raw.directory,
            path_roots=None if raw.are_paths_listed else raw.path_roots,
            undecoded=raw.undecoded,
        )
        for feature in schema.features
    }
    rows = pa.record_batch([column.values for column in columns.values()], schema=value_schema(schema))
    problems = {**unplaced, **_first_problems(schema, columns)}
    kept = np.delete(np.arange(raw.columns.num_rows), list(problems))
    return TypedRows(
        rows=rows.take(pa.array(kept)) if problems else rows,
        kept=kept,
        rejected=tuple(_rejection(raw, row, *problems[row]) for row in sorted(problems)),
    )


def check_declared(names: Sequence[str], schema: Schema, source: str) -> None:
    """Raises InputError if the schema neither reads nor ignores one of the columns `names`."""
    # Ignoring `address` ignores `address.zip`.
    ignored = tuple(f"{name}." for name in schema.ignore)
    known = {*schema.columns, *schema.ignore, *schema.placing_columns}
    undeclared = [name for name in names if name not in known and not name.startswith(ignored)]
    if undeclared:
        raise InputError(
            f"input {source}",
            received=f"column {', '.join(map(repr, undeclared))}, which the schema does not know",
            expected=f"columns {', '.join(schema.columns)}",
            action=cause_of_names(
                undeclared,
                otherwise="Add a feature for it to the schema, or name it with the reason under 'ignore'.",
            ),
        )


def check_present(names: Sequence[str], schema: Schema, source: str) -> None:
    """Raises InputError if a column that the schema reads is not among `names`."""
    there = set(names)
    absent = [name for name in (*schema.columns, *schema.placing_columns) if name not in there]
    if absent:
        raise InputError(
            f"input {source}",
            received=f"columns {', '.join(names)}",
            expected=f"also {', '.join(map(repr, absent))}, which the schema reads",
            action=cause_of_names(
                there.difference(schema.columns, schema.placing_columns, schema.ignore),
                otherwise=did_you_mean(
                    absent[0],
                    names,
                    otherwise="Correct the schema or the file; if the file has no header, give "
                    "--column_names.",
                ),
            ),
        )


def _first_problems(schema: Schema, columns: Mapping[str, typed.Column]) -> dict[int, tuple[str, str]]:
    """Raw column and reason for each bad row: a row is rejected once, whatever else is wrong with it."""
    problems: dict[int, tuple[str, str]] = {}
    for feature in schema.features:
        for row, reason in columns[feature.name].problems.items():
            problems.setdefault(row, (feature.source_column, reason))
    return problems


def _rejection(raw: RawRows, row: int, column: str, reason: str) -> Rejection:
    origin = raw.origin(row)
    cell = raw.column(column)[row].as_py()
    return Rejection(source=origin.file, row=origin.row, column=column, reason=reason, raw=shown(cell))
