"""Rows that cannot be converted: where each came from, why, and how many there are of each reason."""

import collections
import dataclasses
import heapq
import json
import pathlib
from collections.abc import Iterable

import apache_beam as beam

from beam_jobs.sources.pieces.likely_cause import likely_cause
from pipeline.data.errors import InputError

_RAW_LIMIT = 256  # characters of the offending text that are kept
LISTED_LIMIT = 100_000  # rows that are listed; more are only counted, so that memory is bounded


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rejection:
    """One row left out. `row` is its number, as `Origin` counts; None where a file is one row."""

    source: str
    row: int | None
    column: str | None = None  # None: the whole row
    reason: str
    raw: str = ""

    @property
    def order(self) -> tuple:
        return self.source, self.row or 0, self.column or "", self.reason, self.raw


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rejected:
    """All rejected rows of a run: exact counts by reason, and the first `LISTED_LIMIT` by origin."""

    reasons: dict[str, int]
    listed: tuple[Rejection, ...]

    @property
    def rows(self) -> int:
        return sum(self.reasons.values())


NOTHING = Rejected(reasons={}, listed=())


def shown(raw: object) -> str:
    """`raw` for a message: bytes that are not UTF-8 are escaped, and `_RAW_LIMIT` characters kept."""
    if isinstance(raw, bytes):
        raw = raw[:_RAW_LIMIT].decode("utf-8", "backslashreplace")
    return "" if raw is None else str(raw)[:_RAW_LIMIT]


class CollectRejected(beam.CombineFn):
    """Rejection* → Rejected; the result does not depend on the order of merging."""

    def create_accumulator(self) -> tuple[collections.Counter, list[Rejection]]:
        return collections.Counter(), []

    def add_input(self, accumulator: tuple, rejection: Rejection) -> tuple:
        reasons, listed = accumulator
        reasons[rejection.reason] += 1
        listed.append(rejection)
        # Cutting at twice the limit makes the sorting cost per row constant.
        return reasons, _first(listed) if len(listed) >= 2 * LISTED_LIMIT else listed

    def merge_accumulators(self, accumulators: Iterable[tuple]) -> tuple:
        reasons: collections.Counter = collections.Counter()
        listed: list[Rejection] = []
        for other_reasons, other_listed in accumulators:
            reasons.update(other_reasons)
            listed = _first([*listed, *other_listed])
        return reasons, listed

    def extract_output(self, accumulator: tuple) -> Rejected:
        reasons, listed = accumulator
        return Rejected(reasons=dict(sorted(reasons.items())), listed=tuple(_first(listed)))


def save(rejected: Rejected, path: pathlib.Path) -> None:
    """Writes JSON Lines, one rejected row a line, in the order of their origins."""
    lines = (json.dumps(dataclasses.asdict(row), ensure_ascii=False) for row in rejected.listed)
    path.parent.mkdir(exist_ok=True)
    # A file's name need not be UTF-8: what is not becomes an escape of JSON.
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="backslashreplace")


def check_limit(rejected: Rejected, *, rows_read: int, limit: float, examples: int = 5) -> None:
    """Raises InputError, with counts and examples, if more than `limit` of the rows were rejected."""
    if rejected.rows <= limit * rows_read:
        return
    reasons = ", ".join(f"{count:,} × {reason}" for reason, count in rejected.reasons.items())
    first = "; ".join(map(_line, rejected.listed[:examples]))
    raise InputError(
        "rows that cannot be converted",
        received=f"{rejected.rows:,} of {rows_read:,} rows ({reasons})",
        expected=f"at most a fraction of {limit:g} of them (--max_rejected_fraction)",
        action="Nothing was published. Correct the data or the schema, or allow for such rows to be left "
        f"out with --max_rejected_fraction. {likely_cause(rejected.reasons, rows=rows_read)}"
        f"The first of them: {first}",
    )


def _line(row: Rejection) -> str:
    origin = row.source if row.row is None else f"{row.source} row {row.row:,}"
    column = f", column '{row.column}'" if row.column else ""
    raw = f": {row.raw[:60]!r}" if row.raw else ""
    return f"{origin}{column}: {row.reason}{raw}"


def _first(listed: list[Rejection]) -> list[Rejection]:
    return heapq.nsmallest(LISTED_LIMIT, listed, key=lambda rejection: rejection.order)
