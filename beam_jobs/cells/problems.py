"""The rows of a column that do not convert, and why; found without looking at single rows that do."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import text

NOT_UTF_8 = "not UTF-8"


class Problems(dict[int, str]):
    """The first problem found with each row."""

    def add(self, rows: Iterable[int] | pa.BooleanArray, reason: str) -> None:
        """Names a problem of these rows: positions, or a bool [rows]."""
        if isinstance(rows, pa.BooleanArray):
            rows = np.flatnonzero(rows.fill_null(False).to_numpy(zero_copy_only=False)).tolist()
        for row in rows:
            self.setdefault(row, reason)


def decode(cells: pa.Array, problems: Problems) -> pa.StringArray:
    """Text [rows] of `cells` [rows]; what is not UTF-8 becomes null and a problem."""
    return convert(text.to_bytes(cells), pa.string(), NOT_UTF_8, problems)


def convert(values: pa.Array, to: pa.DataType, reason: str, problems: Problems) -> pa.Array:
    """`values` [rows] cast to the type `to`; what does not convert becomes null and a problem."""
    try:
        return values.cast(to)
    except pa.ArrowInvalid:
        wrong = _unconvertible(values, to, first=0)
    problems.add(wrong, reason)
    keep = np.ones(len(values), bool)
    keep[wrong] = False
    return pc.if_else(pa.array(keep), values, pa.scalar(None, values.type)).cast(to)


def _unconvertible(values: pa.Array, to: pa.DataType, *, first: int) -> list[int]:
    """Positions that Arrow cannot cast, found by halving: k bad ones of n cost k·log(n) casts."""
    try:
        values.cast(to)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return [first]
        half = len(values) // 2
        left = _unconvertible(values[:half], to, first=first)
        return left + _unconvertible(values[half:], to, first=first + half)
    return []
