"""What every source is: it lists pieces of work where the job starts, and reads them as columns on a worker.

An *input* is what the user names; a *piece* is what one worker reads at once; *raw rows* are what reading
gives: columns of undecoded text that still know where each row came from.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from beam_jobs.rejected import Rejection


@dataclasses.dataclass(frozen=True, kw_only=True)
class Input:
    """One --input: where the files are, and the split that they are pinned to."""

    location: str  # a file, a directory or a glob
    split: str = ""  # empty: rows are split by fractions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Piece:
    """What one worker reads at once."""

    paths: tuple[str, ...]
    root: str  # the common directory of all inputs; places are told relative to it
    bytes: int
    split: str = ""
    input_root: str = ""  # the directory that this input named


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawRows:
    """Rows of one piece, column by column.

    `columns` holds `binary` or `string` columns without nulls. Row i came from `sources[i]` (or `sources`,
    where all are of one file), data row `numbers[i]`, 1-based (None where a file is one row).
    `rejected` are rows that could not even be cut into columns: they are not among `columns`.
    """

    columns: pa.RecordBatch
    sources: str | Sequence[str]
    numbers: np.ndarray | None = None  # int64 [rows]
    ids: pa.Array | None = None  # what identifies each row; None: its cells do
    rejected: tuple[Rejection, ...] = ()

    @property
    def rows_read(self) -> int:
        return self.columns.num_rows + len(self.rejected)

    def place(self, row: int) -> tuple[str, int | None]:
        """Source and row number of the row at position `row` of this batch."""
        source = self.sources if isinstance(self.sources, str) else self.sources[row]
        return source, None if self.numbers is None else int(self.numbers[row])


class Source(Protocol):
    """One raw format, with its options. Instances are pickled to the workers."""

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        """Lists the files (on the launcher); raises InputError where an input matches none."""

    def read(self, piece: Piece) -> Iterator[RawRows]:
        """Reads one piece (on a worker); raises InputError where the file as a whole is unusable."""
