"""Raw rows → typed rows on the way to their shards: parses them, puts them in hash order, and assigns
them.
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from beam_jobs.cells import text, typed
from beam_jobs.cells.text import MISSING
from beam_jobs.cells.typed import GROUP_COLUMN, ORDER_COLUMN, ORIGIN_COLUMN, ROW_COLUMN, value_schema
from beam_jobs.conversion import assignment
from beam_jobs.conversion.assignment import Sent, ShardKey, group_keys, split_rows
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.shuffle import Spill
from beam_jobs.launch.outcome import LINES, NOTED, READ, REJECTED, SUMS, note
from beam_jobs.launch.run import Progress
from beam_jobs.sources.source import (
    NO_LABEL,
    InputSplit,
    RawRows,
    Rejection,
    Source,
    cause_of_names,
    excerpt,
    read_split,
)
from pipeline.base.errors import InputError, did_you_mean
from pipeline.data.schema.feature_types import Label, Tokens
from pipeline.data.schema.schema import Schema


@dataclasses.dataclass(eq=False)
class Prepare(beam.DoFn):
    """InputSplit → (split, shard), `Sent` rows; beside them the outputs of `launch/outcome`."""

    source: Source
    schema: Schema
    plan: Plan
    spill: Spill
    progress: Progress
    keeps_rejected_raw: bool = True

    def __post_init__(self) -> None:
        # Each worker is sent its own input splits.
        self.plan = dataclasses.replace(self.plan, input_splits=())

    def process(
        self, input_split: InputSplit
    ) -> Iterator[
        tuple[ShardKey, Sent]
        | TaggedOutput[Literal["read"], int]
        | TaggedOutput[Literal["rejected"], Rejection]
        | TaggedOutput[Literal["lines"], tuple[str, int]]
        | TaggedOutput[Literal["noted"], tuple[str, int]]
    ]:
        lines = 0
        # A file without a byte has no header.
        for raw in read_split(self.source, input_split) if input_split.bytes else ():
            self._check_columns(raw, input_split.paths[0])
            ids = _row_ids(raw, self.schema)
            split = split_rows(raw, ids, self.schema, self.plan, pinned=input_split.split)
            typed = type_rows(raw, self.schema.of_rows, unplaced=split.problems)
            for rejection in raw.reported(typed.rejected):
                kept = rejection if self.keeps_rejected_raw else dataclasses.replace(rejection, raw="")
                yield TaggedOutput(REJECTED, kept)
            places = raw.places(input_split)[typed.kept] if self.plan.origins else None
            keys = typed.of_kept(group_keys(raw, self.schema.group)) if self.schema.group else None
            rows = _with_order(typed.rows, typed.of_kept(ids), places, keys)
            if not (self.schema.group or self.schema.row_id or raw.numbers is None or raw.files is not None):
                yield from (TaggedOutput(NOTED, each) for each in _sums(rows, input_split.file_names[0]))
            index = split.index[typed.kept]
            yield from assignment.scatter(rows, index, self.plan, splits=split.splits, spill=self.spill)
            yield from (TaggedOutput(NOTED, counted) for counted in typed.notes.items())
            for name, counts in raw.counts.items():
                sums = np.bincount(index, weights=counts[typed.kept], minlength=len(split.splits))
                for of, total in zip(split.splits, sums, strict=True):
                    yield TaggedOutput(NOTED, (note(name, of), int(total)))
            self.progress.add(read=raw.rows_read)
            yield TaggedOutput(READ, raw.rows_read)
            lines = max(lines, raw.lines)
        if input_split.end is not None:
            yield TaggedOutput(LINES, (input_split.name, lines))

    def _check_columns(self, raw: RawRows, path: str) -> None:
        names = raw.columns.schema.names
        check_declared(names, self.schema, path)
        if not raw.sparse:
            check_present(names, self.schema, path)


def _sums(rows: pa.RecordBatch, file: str) -> Iterator[tuple[str, int]]:
    """Yields what is summed over a file, by `outcome.SUMS`; the order of rows does not count."""
    hashes = rows.column(ORDER_COLUMN).to_numpy()
    halves = (hashes & np.uint64(0x7FFFFFFF), hashes >> np.uint64(33))
    for name, total in zip(SUMS, (len(hashes), *(half.sum() for half in halves)), strict=True):
        yield note(name, file), int(total)


def _row_ids(raw: RawRows, schema: Schema) -> pa.Array:
    """Returns each row's id, binary or string [rows]: the cells of `row_id`, else what the source says.

    Where the source gives no id, the cells that the schema reads are the id: so an ignored column, such as
    the time of loading, moves no row.
    """
    if raw.ids is not None and not schema.row_id:
        return raw.ids
    return assignment.row_ids(raw, schema.row_id or schema.columns)


def _with_order(
    rows: pa.RecordBatch, ids: pa.Array, places: np.ndarray | None, keys: pa.Array | None
) -> pa.RecordBatch:
    """Puts the order hash, `places`, and the `keys` of groups in front of `rows`: see
    `cells.typed.arrow_schema`.

    The hash is that of `ids` or, for rows in groups, of the keys: so all rows of a group meet.
    """
    order = pa.array(assignment.hash_ids(ids, purpose=assignment.ORDER))
    if keys is not None:
        rows = rows.add_column(0, pa.field(ROW_COLUMN, order.type), order)
        rows = rows.add_column(0, pa.field(GROUP_COLUMN, keys.type), keys)
        order = pa.array(assignment.hash_ids(keys, purpose=assignment.ORDER))
    if places is not None:
        rows = rows.add_column(0, pa.field(ORIGIN_COLUMN, pa.uint64()), pa.array(places))
    return rows.add_column(0, pa.field(ORDER_COLUMN, order.type), order)


# --- Raw rows → typed rows and rejected ones; `predict` uses it too.


@dataclasses.dataclass(frozen=True, kw_only=True)
class TypedRows:
    """The conforming rows of one batch, where each was in that batch, and the rows left out."""

    rows: pa.RecordBatch  # [kept], of `cells.typed.value_schema`
    kept: np.ndarray  # int64 [kept], positions in the raw batch
    rejected: tuple[Rejection, ...]
    notes: Mapping[str, int]  # conforming rows that deserve a remark, by `outcome.note`

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
        notes={
            note(kind, name): len(rows - problems.keys())
            for name, each in columns.items()
            for kind, rows in each.notes.items()
            if rows - problems.keys()
        },
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
            action=_making_tokens(names, schema)
            or cause_of_names(
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
            action=_making_tokens(names, schema)
            or cause_of_names(
                there.difference(schema.columns, schema.placing_columns, schema.ignore),
                otherwise=did_you_mean(
                    absent[0],
                    names,
                    otherwise="Correct the schema or the file; if the file has no header, give "
                    "--column_names.",
                ),
            ),
        )


def _making_tokens(names: Collection[str], schema: Schema) -> str:
    """The flags that make the schema's tokens of the input's text; empty where the input has the tokens."""
    absent = [each for each in schema.of_type(Tokens) if each.tokenizer and each.source_column not in names]
    if not absent:
        return ""
    flags = f"--tokenizer={absent[0].tokenizer} --sequence_length={absent[0].length}"
    return f"Give the flags that made the schema's tokens: {flags}."


def _first_problems(schema: Schema, columns: Mapping[str, typed.Column]) -> dict[int, tuple[str, str]]:
    """Raw column and reason for each bad row; a row is rejected once, even if more is wrong with it."""
    problems: dict[int, tuple[str, str]] = {}
    for feature in schema.features:
        is_label = isinstance(feature, Label)
        for row, reason in columns[feature.name].problems.items():
            reason = NO_LABEL if is_label and reason == MISSING else reason
            problems.setdefault(row, (feature.source_column, reason))
    return problems


def _rejection(raw: RawRows, row: int, column: str, reason: str) -> Rejection:
    origin = raw.origin(row)
    cell = raw.column(column).slice(row, 1)
    # Python has no dates of the year 20000.
    cell = (text.to_bytes(cell) if pa.types.is_temporal(cell.type) else cell)[0].as_py()
    return Rejection(source=origin.file, row=origin.row, column=column, reason=reason, raw=excerpt(cell))
