"""Rows or nested columns → flat columns, each named by its path: `address.zip`."""

import collections
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.cells import text
from beam_jobs.sources import files
from beam_jobs.sources.source import InputSplit, RawRows, Rejection
from pipeline.base.errors import InputError


def without_structs(batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
    """Makes a column of each field of a struct; `column_names` says what happens to equal names."""
    columns = list(zip(batch.schema.names, batch.columns, strict=True))
    while any(pa.types.is_struct(column.type) for _, column in columns):
        columns = [flat for name, column in columns for flat in _fields(name, column)]
    names = column_names([name for name, _ in columns], path)
    return pa.record_batch([column for _, column in columns], names=list(names))


def leaves(row: Mapping[str, object]) -> dict[str, object]:
    """The values of a nested row by path: each a scalar or a flat list of scalars. Null values are left out.

    Raises ValueError if two values have one path.
    """
    found: dict[str, object] = {}
    for name, value in row.items():
        nested = leaves(value) if isinstance(value, Mapping) else None
        inside = {f"{name}.{path}": leaf for path, leaf in nested.items()} if nested else {}
        for path, leaf in (inside if nested is not None else {name: _flat(value)}).items():
            if leaf is None:
                continue
            if path in found:
                raise ValueError(f"two values at '{path}'")
            found[path] = leaf
    return found


def _from_rows(rows: Sequence[Mapping[str, object]]) -> pa.RecordBatch:
    """Columns [rows] of rows that `leaves` gave; null where a row has no value."""
    names = sorted({name for row in rows for name in row})
    columns = [_column([row.get(name) for row in rows]) for name in names]
    if not names:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.record_batch(columns, names=names)


class NumberedRow(NamedTuple):
    number: int  # 1-based
    row: Mapping[str, object]


def raw_rows(
    input_split: InputSplit, numbered: Sequence[NumberedRow], *, rejected: Iterable[Rejection] = ()
) -> RawRows:
    """Returns `RawRows` of rows that name their columns; a row with two values at one path is rejected."""
    rejected, rows, numbers = list(rejected), [], []
    for number, row in numbered:
        try:
            rows.append(leaves(row))
            numbers.append(number)
        except (ValueError, RecursionError) as error:
            rejected.append(Rejection(source=input_split.name, row=number, reason=str(error)))
    return RawRows(
        columns=_from_rows(rows),
        sources=input_split.name,
        numbers=np.array(numbers, np.int64),
        rejected=tuple(rejected),
        sparse=True,
        directory=files.directory_of(input_split.paths[0]),
    )


def _fields(name: str, column: pa.Array) -> list[tuple[str, pa.Array]]:
    if not pa.types.is_struct(column.type):
        return [(name, column)]
    inside = [field.name for field in column.type]
    return [(f"{name}.{field}", flat) for field, flat in zip(inside, column.flatten(), strict=True)]


def _flat(value: object) -> object:
    """Turns lists of lists into one flat list, and objects inside lists into JSON text."""
    if not isinstance(value, list | tuple):
        return value
    flat: list[object] = []
    for item in map(_flat, value):
        if isinstance(item, list):
            flat += item
        else:
            flat.append(json.dumps(item, sort_keys=True, default=_plain) if isinstance(item, dict) else item)
    return flat


def _column(values: list[object]) -> pa.Array:
    """Makes a column of one type: Arrow's, or text where types differ. If one value is a list, all become
    lists.
    """
    if any(isinstance(value, list) for value in values):
        lists = [value if isinstance(value, list) or value is None else [value] for value in values]
        items = itertools.chain.from_iterable(filter(None, lists))
        found = None if _mixes_booleans(items) else _array(lists)
        if found is None:
            return pa.array([value and list(map(_text, value)) for value in lists], pa.list_(pa.binary()))
        return found
    found = None if _mixes_booleans(values) else _array(values)
    return pa.array(list(map(_text, values)), pa.binary()) if found is None else found


def _array(values: list[object]) -> pa.Array | None:
    """Returns the values in the one type that Arrow finds; None where types differ."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return None


def _mixes_booleans(values: Iterable[object]) -> bool:
    """Returns whether booleans are mixed with other values: after a fraction, Arrow takes booleans for 1 and
    0.
    """
    kinds = set(map(type, values)) - {type(None)}
    return bool in kinds and len(kinds) > 1


def _text(value: object) -> bytes | None:
    """Returns text as `cells.text` writes it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value).encode()  # a whole number of any size
    return text.to_bytes(pa.array([value]))[0].as_py()


def _plain(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


# --- Names of columns where the header has empty or equal ones.


def column_names(header: Sequence[str], path: str) -> tuple[str, ...]:
    """Returns `header`; empty and repeated names get a `#` and their 1-based position.

    `id,price,,price` → `id`, `price#2`, `#3`, `price#4`. Raises InputError if another column has such a name.
    """
    counts = collections.Counter(header)
    names = tuple(
        name if name and counts[name] == 1 else f"{name}#{position}"
        for position, name in enumerate(header, 1)
    )
    if len(set(names)) < len(names):
        repeated = [name for name, count in collections.Counter(names).items() if count > 1]
        raise InputError(
            f"input {path}, header",
            received=f"several columns {', '.join(map(repr, repeated))}",
            expected="names that differ",
            action="Rename columns in the file.",
        )
    return names


def file_remarks(names: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yields remarks on columns that some files lack; `names` has the columns of each file."""
    for name in dict.fromkeys(name for found in names.values() for name in found):
        lacking = [path for path, found in names.items() if name not in found]
        if lacking:
            yield (
                f"{len(lacking):,} of {len(names):,} files lack the column '{name}', such as {lacking[0]}: "
                "convert will refuse them. Add it there, or leave it out of all (--ignore)."
            )


def header_remarks(names: Iterable[str]) -> Iterator[str]:
    """Yields remarks on names that `column_names` made."""
    alike: dict[str, list[str]] = {}
    for position, name in enumerate(names, 1):
        stem, _, number = name.rpartition("#")
        if number == str(position):
            alike.setdefault(stem, []).append(name)
    for stem, made in alike.items():
        which = f"Several columns are called '{stem}'" if stem else "Columns have no name"
        yield f"{which}: they are read by position, as {', '.join(map(repr, made))}."
