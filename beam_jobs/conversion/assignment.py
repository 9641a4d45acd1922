"""Assigns each row to a split, shard and bucket, by keyed hashes of the row's id.

A row's split depends on nothing but its id, so the row never moves when others are added. Within a split,
rows stand in the order of a second, independent hash; shard i of n holds the i-th of n equal parts of its
range. So the output does not depend on the order of the input, the runner, or the number of workers.

A bucket is a contiguous part of a shard's range, small enough to be sorted and encoded in memory. So the
memory that a run needs does not grow with its data, and no value in the shuffle is large.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import text, typed
from beam_jobs.cells.text import Problems
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.shuffle import Spill
from beam_jobs.sources.source import RawRows
from pipeline.data.dataset.row_hashes import content_hashes
from pipeline.data.schema.feature_types import Datetime, Numeric
from pipeline.data.schema.schema import Group, Schema, SplitBy

# Purposes of hashes, which must not correlate: `person` of BLAKE2 separates them.
SPLIT = b"penstock split"
ORDER = b"penstock order"

ShardKey = tuple[str, int]  # split, shard
Sent = tuple[int, bytes]  # bucket, what `Spill` sends in place of its rows as Arrow IPC

_CELL_END = b"\x1f"  # a row whose cells hold this byte may share an id with another; that is harmless


def row_ids(raw: RawRows, names: Iterable[str]) -> pa.Array:
    """The cells of the columns `names` as bytes, joined: binary [rows]."""
    # Sorted by name: the order of the features in the schema must not change the ids.
    cells = [text.to_bytes(raw.column(name)) for name in sorted(set(names))]
    return pc.binary_join_element_wise(
        *cells, pa.scalar(_CELL_END, pa.binary()), null_handling="replace", null_replacement=b""
    )


def group_keys(raw: RawRows, group: Group) -> pa.Array:
    """The value by which each row is in a group, without blanks at its ends: binary [rows]; empty: none."""
    cells = [cell.strip() if cell else b"" for cell in text.to_bytes(raw.column(group.column)).to_pylist()]
    missing = {word.encode() for word in group.missing}
    return pa.array([b"" if cell in missing else cell for cell in cells], pa.binary())


def hash_ids(ids: pa.Array, *, purpose: bytes) -> np.ndarray:
    """Hashes `ids`, binary or string [rows], uniformly: uint64 [rows]."""
    return content_hashes(ids.cast(pa.binary()).to_pylist(), purpose=purpose)


def split_of(hashes: np.ndarray, fractions: Sequence[Fraction]) -> np.ndarray:
    """Returns an index into `fractions` (which sum to 1), int64 [rows], for `hashes`, uint64 [rows]."""
    ends = np.cumsum([Fraction(0), *fractions])[1:-1]
    boundaries = np.array([int(end * (1 << 64)) for end in ends], np.uint64)
    return np.searchsorted(boundaries, hashes, side="right")


def shard_of(order: np.ndarray, shards: int) -> np.ndarray:
    """Cuts `order`, uint64 [rows], into ranges of equal width: int64 [rows]. At most 2**32 shards."""
    high = order >> np.uint64(32)
    return ((high * np.uint64(shards)) >> np.uint64(32)).astype(np.int64)


def scatter(
    rows: pa.RecordBatch, split: np.ndarray, plan: Plan, *, splits: Sequence[str], spill: Spill
) -> Iterator[tuple[ShardKey, Sent]]:
    """Sends each row to its shard, and there to its bucket.

    Column 0 of `rows` is the order hash, which decides shard and bucket. `split`, int64 [rows], numbers
    `splits`.
    """
    bucket = _buckets(plan, splits, split, rows.column(0).to_numpy())
    by_bucket = np.argsort(bucket, kind="stable")
    sorted_rows, bucket = rows.take(pa.array(by_bucket)), bucket[by_bucket]
    starts = np.flatnonzero(np.diff(bucket, prepend=-1))
    lengths = np.diff(starts, append=len(bucket))
    parts = [
        sorted_rows.slice(start, length).serialize().to_pybytes()
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
    keys = [
        ((name, shard), number)
        for name in splits
        for shard in range(plan.shards[name])
        for number in range(plan.buckets[name])
    ]
    for index, sent in zip(bucket[starts].tolist(), spill.put(parts), strict=True):
        key, number = keys[index]
        yield key, (number, sent)


def _buckets(plan: Plan, splits: Sequence[str], split: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Returns each row's bucket, int64 [rows]; numbers run on through all shards of all `splits`."""
    bucket, before = np.zeros(len(order), np.int64), 0
    for index, name in enumerate(splits):
        mine, count = split == index, plan.shards[name] * plan.buckets[name]
        bucket[mine] = before + shard_of(order[mine], count)
        before += count
    return bucket


# --- The split of each raw row: its input's, or by the hash of its group, or by the schema's cut-offs.


_MISSING = "no value to split by"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Splitting:
    """`index`, int64 [rows], points into `splits`. `problems`: column and reason of rows without a split."""

    splits: tuple[str, ...]
    index: np.ndarray
    problems: Mapping[int, tuple[str, str]] = dataclasses.field(default_factory=dict)


def split_rows(raw: RawRows, ids: pa.Array, schema: Schema, plan: Plan, *, pinned: str) -> Splitting:
    """The split of each of the raw rows, which `ids`, binary or string [rows], identify.

    Rows that are `pinned` to a split all go there.
    """
    rows, problems = raw.columns.num_rows, {}
    if schema.group:
        ids = group_keys(raw, schema.group)
        problems = _empty(ids, schema.group.column, f"no {schema.group.column}, which says the row's group")
    if pinned:
        return Splitting(splits=(pinned,), index=np.zeros(rows, np.int64), problems=problems)
    if schema.split_by and schema.split_by.starts:
        return _by_cut_offs(raw, schema, schema.split_by)
    groups = ids if raw.groups is None or schema.group else raw.groups
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
    features = (feature for feature in schema.of_type(kind) if feature.source_column == column)
    return next(features, kind(name=column, missing="mark"))


def _without_group(raw: RawRows, columns: Sequence[str]) -> dict[int, tuple[str, str]]:
    """The rows that lack a value in one of `columns`: they could be of any group."""
    found: dict[int, tuple[str, str]] = {}
    for column in columns:
        found = _empty(text.to_bytes(raw.column(column)), column, _MISSING) | found
    return found


def _empty(cells: pa.Array, column: str, reason: str) -> dict[int, tuple[str, str]]:
    """Column and reason of the rows whose cell, binary [rows], is empty."""
    empty = pc.equal(cells, b"").fill_null(True).to_numpy(zero_copy_only=False)
    return dict.fromkeys(np.flatnonzero(empty).tolist(), (column, reason))
