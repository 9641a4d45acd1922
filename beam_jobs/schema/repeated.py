"""Rows and files that were written twice."""

import collections
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.sources import files
from beam_jobs.sources.source import InputSplit

_COMPARED = 20_000_000  # cells of the rows that are compared with each other: some seconds
_SHOWN = 3  # files that are named


class SeenRows:
    """Remembers the first rows by a hash of all their cells; rows with lists or images are not compared."""

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self.compared = 0
        # By file: how many rows were compared, and how many of these were seen before.
        self._rows: collections.Counter[str] = collections.Counter()
        self._again: collections.Counter[str] = collections.Counter()

    @property
    def repeated(self) -> int:
        """The number of rows that are equal to an earlier one in every cell."""
        return self.compared - len(self._hashes)

    def add(self, columns: Sequence[pa.Array | None], path: str) -> None:
        """Adds rows of a file, whose cells are text; None stands for a column of another kind."""
        if not columns or any(each is None for each in columns) or self.compared * len(columns) > _COMPARED:
            return
        rows = pc.binary_join_element_wise(*columns, "\x1f", null_handling="replace", null_replacement="\x1e")
        hashes = [*map(hash, rows.to_pylist())]
        self._again[path] += sum(each in self._hashes for each in hashes)
        self._rows[path] += len(hashes)
        self._hashes.update(hashes)
        self.compared += len(hashes)

    def remark(self, telling: str) -> str:
        """Says how many rows repeat, and which files hold nothing else; `telling` is a column that tells rows
        apart.
        """
        whole = [path for path, rows in self._rows.items() if rows > 1 and self._again[path] == rows]
        of_files = f" All rows of {_listed(whole)} are in earlier files." if whole else ""
        return (
            f"{self.repeated:,} of {self.compared:,} rows are equal to an earlier row in every column, "
            f"'{telling}' too.{of_files} convert keeps them. If they were written by mistake, remove them."
        )


def copy_remarks(input_splits: Sequence[InputSplit]) -> Iterator[str]:
    """Yields a remark on files that have the same bytes, wherever they lie."""
    copied = files.copies(input_splits)
    if copied:
        listed = _listed([f"{file} (of {other})" for file, other in copied.items()])
        yield (
            f"Copies of other files, byte for byte: {listed}. convert writes their rows twice. If that is a "
            "mistake, remove them."
        )


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN:,} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more
