"""What a source is: it lists pieces of work on the launcher, and reads each as columns on a worker.

An *input* is what the user names. A *piece* is a unit of work: what one worker reads at once. *Raw rows* are
what reading gives: columns, and where each row came from.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from beam_jobs.sources.pieces.rejections import Rejection
from pipeline.data.dataset.origins.origin import Origin
from pipeline.data.dataset.origins.rows import place


@dataclasses.dataclass(frozen=True, kw_only=True)
class Input:
    """One --input: where the files are, and the split that they are pinned to."""

    location: str  # a file, a directory or a glob
    split: str = ""  # empty: rows are split by fractions
    may_be_empty: bool = False  # files without a byte are read as files without a row


@dataclasses.dataclass(frozen=True, kw_only=True)
class Piece:
    """What one worker reads at once."""

    paths: tuple[str, ...]
    root: str  # the common directory of all inputs; origins are told relative to it
    bytes: int
    split: str = ""
    input_root: str = ""  # the directory that this input named
    start: int = 0  # bytes of the (one) file that are read: [start, end)
    end: int | None = None  # None: to its end
    stamps: tuple[int, ...] = ()  # of `paths`, where they are files: `stamps.py` notices changes by them
    line_ends: str = ""  # what ends a line, where rows are numbered by lines: see `origins.files.Entry`
    called: str = ""  # what origins call it, where that is not the path
    first_file: int = 0  # number of its first file among those of all pieces

    @property
    def file_names(self) -> list[str]:
        """What origins call its files."""
        return [self.called] if self.called else [path.removeprefix(self.root) for path in self.paths]

    @property
    def name(self) -> str:
        """The first file, and where in it the rows are counted from."""
        source = self.called or self.paths[0].removeprefix(self.root)
        return f"{source} from byte {self.start}" if self.start else source


def numbered(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """`pieces`, each with the number of its first file."""
    first = 0
    for piece in pieces:
        yield dataclasses.replace(piece, first_file=first)
        first += len(piece.paths)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawRows:
    """Rows of one piece, column by column.

    `columns` holds what the format knows: text formats give `binary` or `string`, typed formats any Arrow
    type; null is a missing value. A column inside a struct is named by its path, `address.zip`. Row i came
    from `sources[i]` (or from `sources`, where all are of one file); there it is row `numbers[i]`, as
    `Origin` counts (None where a file is one row). Rows that cannot be cut into columns are `rejected` only.
    """

    columns: pa.RecordBatch
    sources: str | Sequence[str]
    numbers: np.ndarray | None = None  # int64 [rows]
    files: np.ndarray | None = None  # int64 [rows]: which of the piece's paths; None: the first
    lines: int = (
        0  # of the piece, so far, where rows are numbered from its start and not from that of the file
    )
    ids: pa.Array | None = None  # [rows], what identifies each; None: the cells that the schema reads do
    groups: pa.Array | None = None  # [rows]; a group goes to one split; None: each row is its own group
    rejected: tuple[Rejection, ...] = ()
    sparse: bool = False  # rows name their columns: a column may be absent, and is missing in all rows then
    undecoded: bool = False  # binary cells are text, not an image's own bytes
    directory: str = ""  # what relative paths in cells start from
    path_roots: tuple[str, ...] = ()  # where else paths in cells may lead
    are_paths_listed: bool = False  # paths in cells name files that the source itself listed

    @property
    def rows_read(self) -> int:
        return self.columns.num_rows + len(self.rejected)

    def column(self, name: str) -> pa.Array:
        """The cells of a column, [rows]."""
        if self.sparse and name not in self.columns.schema.names:
            return pa.nulls(self.columns.num_rows, pa.string())
        return self.columns.column(name)

    def without_first(self, rows: int) -> "RawRows":
        """All but the first `rows` rows; only where all are of one file."""
        numbers = None if self.numbers is None else self.numbers[rows:]
        return dataclasses.replace(self, columns=self.columns[rows:], numbers=numbers)

    def places(self, piece: Piece) -> np.ndarray:
        """uint64 [rows]: number of the file and of the row, as `origins.rows` of a dataset packs them."""
        numbers = np.zeros(self.columns.num_rows, np.int64) if self.numbers is None else self.numbers
        return place(piece.first_file + (0 if self.files is None else self.files), numbers)

    def origin(self, row: int) -> Origin:
        """Where the row at position `row` of this batch came from."""
        source = self.sources if isinstance(self.sources, str) else self.sources[row]
        return Origin(file=source, row=None if self.numbers is None else int(self.numbers[row]))


class Source(Protocol):
    """One raw format, with its options. Instances are pickled to the workers."""

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        """Lists the files (on the launcher); raises InputError where an input matches none."""

    def read(self, piece: Piece) -> Iterator[RawRows]:
        """Reads one piece (on a worker); raises InputError where the file as a whole is unusable."""
