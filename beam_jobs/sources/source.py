"""What every source is: it lists pieces of work where the job starts, and reads them as columns on a worker.

An *input* is what the user names; a *piece* is what one worker reads at once; *raw rows* are what reading
gives: columns that still know where each row came from.
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
    start: int = 0  # bytes of the (one) file that are read: [start, end)
    end: int | None = None  # None: to its end

    @property
    def place(self) -> str:
        """What rejected rows are said to come from; row numbers count from there."""
        place = self.paths[0].removeprefix(self.root)
        return f"{place} from byte {self.start}" if self.start else place


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawRows:
    """Rows of one piece, column by column.

    `columns` holds what the format knows: text formats give `binary` or `string`, typed formats any Arrow
    type; null is a missing value. A column inside a struct is named by its path, `address.zip`. Row i came
    from `sources[i]` (or `sources`, where all are of one file), data row `numbers[i]`, 1-based (None where a
    file is one row). `rejected` are rows that could not even be cut into columns: not among `columns`.
    """

    columns: pa.RecordBatch
    sources: str | Sequence[str]
    numbers: np.ndarray | None = None  # int64 [rows]
    ids: pa.Array | None = None  # what identifies each row; None: its cells do
    groups: pa.Array | None = None  # rows of one group go to one split; None: each row is its own
    rejected: tuple[Rejection, ...] = ()
    sparse: bool = False  # rows name their own columns: one that no row of a batch names is missing in all
    undecoded: bool = False  # binary cells are text, not an image's own bytes
    directory: str = ""  # what relative paths in cells start from

    @property
    def rows_read(self) -> int:
        return self.columns.num_rows + len(self.rejected)

    def column(self, name: str) -> pa.Array:
        if self.sparse and name not in self.columns.schema.names:
            return pa.nulls(self.columns.num_rows, pa.string())
        return self.columns.column(name)

    def without_first(self, rows: int) -> "RawRows":
        """Less the first `rows` rows, of one file's rows."""
        numbers = None if self.numbers is None else self.numbers[rows:]
        return dataclasses.replace(self, columns=self.columns[rows:], numbers=numbers)

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
