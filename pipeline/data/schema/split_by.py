"""What decides the split of a row, where a schema says so: the values of columns, or cut-offs in one of them.

Standard library only: Beam workers import this file.
"""

import dataclasses
import datetime
import itertools
import re
from collections.abc import Mapping

from pipeline.data.schema.feature_json import refuse_unknown_keys, schema_error

SPLIT_NAME = re.compile(r"[a-z][a-z0-9_]*")

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

Start = str | float  # a date or a time, or a number


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitBy:
    """All rows with the same values in `columns` go to one split.

    Or, with `starts`: rows whose value in the one column is before the first start go to the split `first`,
    all others to that of the last start that they have reached. Starts ascend; all are points in time in
    ISO 8601 (without a zone: UTC), or all are numbers.
    """

    columns: tuple[str, ...]
    first: str = ""
    starts: Mapping[str, Start] = dataclasses.field(default_factory=dict)  # by split

    def __post_init__(self) -> None:
        if not self.columns or not all(isinstance(name, str) and name for name in self.columns):
            raise _error("", list(self.columns), "names of columns")
        for split in self.splits:
            if not SPLIT_NAME.fullmatch(split):
                raise _error("", f"split {split!r}", "lower-case letters, digits and '_', a letter first")
        if self.first in self.starts:
            raise _error(", 'first'", self.first, "another split than those of 'from'")
        if any(before >= after for before, after in itertools.pairwise(self.bounds)):
            raise _error(", 'from'", dict(self.starts), "cut-offs that ascend")

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that cut-offs part, in their order; none where a hash decides."""
        return (self.first, *self.starts) if self.starts else ()

    @property
    def is_time(self) -> bool:
        """Whether the cut-offs are points in time."""
        return any(isinstance(start, str) for start in self.starts.values())

    @property
    def bounds(self) -> list[float]:
        """The starts: microseconds since 1970-01-01 UTC, or numbers."""
        return [_microseconds(start) if self.is_time else start for start in self.starts.values()]


def to_json(split_by: SplitBy) -> list | dict:
    """A list of columns, or an object with the cut-offs."""
    if not split_by.starts:
        return list(split_by.columns)
    return {"column": split_by.columns[0], "first": split_by.first, "from": dict(split_by.starts)}


def from_json(document: object) -> SplitBy:
    """The inverse of `to_json`; raises InputError naming what is wrong."""
    if isinstance(document, list):
        return SplitBy(columns=tuple(document))
    if not isinstance(document, Mapping):
        expected = "a list of columns, or an object with 'column', 'first' and 'from'"
        raise _error("", repr(document), expected)
    refuse_unknown_keys("split_by", document, {"column", "first", "from"})
    starts, first = document.get("from"), document.get("first", "train")
    if not isinstance(starts, Mapping) or not starts or not all(map(_is_start, starts.values())):
        expected = "an object: each split, and the date or number from which on rows are in it"
        raise _error(", 'from'", repr(starts), expected)
    if not isinstance(first, str):
        raise _error(", 'first'", repr(first), "the name of a split")
    return SplitBy(columns=(document.get("column"),), first=first, starts=dict(starts))


def _is_start(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _microseconds(start: Start) -> int:
    try:
        moment = datetime.datetime.fromisoformat(start)
    except (TypeError, ValueError):
        expected = "all dates or times in ISO 8601, such as 2026-11-01, or all numbers"
        raise _error(", 'from'", repr(start), expected) from None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)) - _EPOCH) // _MICROSECOND


def _error(where: str, received: object, expected: str) -> Exception:
    return schema_error(f"split_by{where}", received, expected)
