"""Reads the rows that a schema is proposed from, and profiles their columns."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import lists, text
from beam_jobs.cells.image_check import has_image_header
from beam_jobs.cells.problems import NOT_UTF_8, Problems
from beam_jobs.cells.typed import to_text
from beam_jobs.proposal.column_profile import ColumnProfile
from beam_jobs.proposal.value_counts import ValueCounts
from beam_jobs.sources import header
from beam_jobs.sources.pieces.likely_cause import check_readable
from beam_jobs.sources.pieces.source import Piece, RawRows, Source

_MOST_CELLS = 100_000_000  # that are looked at: minutes
_COUNTED = 1_000_000  # different values that are counted by themselves, in all columns together: about 300 MB
_LEAST_COUNTED = 1100  # in each column: beyond 1,000 a vocabulary is not listed
_COUNTED_BYTES, _LEAST_BYTES = 64 << 20, 64 << 10  # 64 MiB of them together, 64 KiB in each column


class Profiles(NamedTuple):
    """Profiles of the columns, what went wrong, and whether all rows there are were looked at."""

    columns: list[ColumnProfile]
    remarks: list[str]
    are_of_all_rows: bool


def read_profiles(source: Source, pieces: Sequence[Piece], *, max_rows: int) -> Profiles:
    """Of the first rows of each piece, `most_rows` in all."""
    columns: dict[str, _Gathered] = {}
    reasons: collections.Counter[str] = collections.Counter()
    rows, are_all = 0, True
    for piece in pieces:
        for raw, beyond in _first_rows(source.read(piece), max_rows=max_rows, pieces=len(pieces)):
            are_all &= not beyond
            reasons.update(rejection.reason for rejection in raw.rejected)
            rows += raw.columns.num_rows
            width = max(1, raw.columns.num_columns)
            limit = max(_LEAST_COUNTED, _COUNTED // width)
            most_bytes = max(_LEAST_BYTES, _COUNTED_BYTES // width)
            for name, cells in zip(raw.columns.schema.names, raw.columns.columns, strict=True):
                columns.setdefault(name, _Gathered()).add(
                    cells, raw.undecoded, limit=limit, most_bytes=most_bytes
                )
    wrong = reasons.total()
    undecodable = max((gathered.misread for gathered in columns.values()), default=0)
    reasons.update({NOT_UTF_8: undecodable} if undecodable else {})
    check_readable(reasons, rows=rows + wrong, path=pieces[0].paths[0])
    remarks = [f"{wrong:,} rows cannot be read (see convert); they will be rejected."] if wrong else []
    remarks += header.remarks(columns)
    profiles = [gathered.profile(name, rows) for name, gathered in columns.items()]
    return Profiles(profiles, remarks, are_all)


class _Gathered:
    """What is gathered of one column."""

    def __init__(self) -> None:
        self.rows = self.undecodable = self.images = 0
        self.misread = 0  # those of the undecodable ones that the file gives as text
        self.values = ValueCounts()
        self.lengths: collections.Counter[int] = collections.Counter()
        self.items = "whole"

    def add(self, cells: pa.Array, undecoded: bool, *, limit: int, most_bytes: int) -> None:
        self.rows += len(cells)
        cells = text.plain(cells)
        if text.is_list(cells.type):
            cells = self._add_lists(cells)
        are_bytes = not undecoded and text.is_bytes(cells.type)
        if are_bytes:
            cells = self._add_images(cells)
        decoded = to_text(cells)
        self.undecodable += len(decoded.problems)
        self.misread += 0 if are_bytes else len(decoded.problems)
        self.values.add(decoded.values, limit=limit, most_bytes=most_bytes)

    def _add_lists(self, cells: pa.Array) -> pa.Array:
        """The single values, for lists that hold no more than one."""
        flat = lists.flat(cells)
        sizes = pc.list_value_length(flat).fill_null(0).to_numpy()
        self.lengths.update(sizes.tolist())
        self.items = max(self.items, _items(flat.flatten()), key=("whole", "numbers", "text").index)
        return lists.single(flat, Problems()) if sizes.max(initial=0) <= 1 else pa.array([], pa.string())

    def _add_images(self, cells: pa.Array) -> pa.Array:
        are_images = [value is not None and has_image_header(value) for value in cells.to_pylist()]
        self.images += sum(are_images)
        return cells.filter(pa.array(np.invert(np.array(are_images, bool))))

    def profile(self, name: str, rows: int) -> ColumnProfile:
        """The profile over `rows` rows in all; rows that do not name this column lack it."""
        counts = self.values.counts
        seen = self.values.total + self.undecodable + self.images
        in_lists = max(self.lengths, default=0) > 1
        missing = rows - self.rows + self.lengths[0] if in_lists else rows - seen
        if missing:
            counts[""] = counts[""] + missing if not in_lists else missing
        return ColumnProfile(
            name=name,
            counts=counts,
            others=self.values.others,
            undecodable=self.undecodable,
            images=self.images,
            lengths=self.lengths,
            items=self.items,
        )


def _items(values: pa.Array) -> str:
    if pa.types.is_integer(values.type) or pa.types.is_null(values.type):
        return "whole"
    return "numbers" if text.is_number(values.type) else "text"


def most_rows(columns: int, max_rows: int) -> int:
    """The rows that are looked at: `max_rows`, or fewer of a table that is wide."""
    return min(max_rows, max(1, _MOST_CELLS // max(1, columns)))


def _first_rows(batches: Iterable[RawRows], *, max_rows: int, pieces: int) -> Iterator[tuple[RawRows, int]]:
    """The batches of a piece up to its share of the rows, and how many rows of each are beyond that."""
    seen = 0
    for raw in batches:
        left = -(-most_rows(raw.columns.num_columns, max_rows) // pieces) - seen
        beyond = max(0, raw.columns.num_rows - left)
        yield dataclasses.replace(raw, columns=raw.columns[:left]), beyond
        if beyond:
            return
        seen += raw.columns.num_rows
