"""Columns in the names of folders, as Hive writes them: `raw/date=2026-11-01/town=Z%C3%BCrich/part.csv`.

A file's own column of that name comes first; in rows that name their columns, a row's own value does.
"""

import dataclasses
import re
import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import text
from beam_jobs.sources.pieces.source import Input, Piece, RawRows, Source
from pipeline.data.errors import InputError

MISSING = "__HIVE_DEFAULT_PARTITION__"  # what Hive and Spark write for a missing value
FOLDER = re.compile(r"([^/=]+)=([^/]*)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WithPartitions:
    """What `source` reads, with columns from the folders of its files: those of `columns`, None being all."""

    source: Source
    columns: Collection[str] | None = None

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        return self.source.pieces(inputs)

    def read(self, piece: Piece) -> Iterator[RawRows]:
        """Raises InputError for a folder whose value is not UTF-8."""
        of_files = [values_of(path) for path in piece.paths]
        names = dict.fromkeys(name for values in of_files for name in values)
        wanted = [name for name in names if self.columns is None or name in self.columns]
        for raw in self.source.read(piece):
            yield _with_columns(raw, {name: [values.get(name) for values in of_files] for name in wanted})


def values_of(path: str) -> dict[str, str | None]:
    """The value of each column that a folder of `path` names, None where it is missing.

    Of two folders with one name the inner one counts. Raises InputError for what is not UTF-8.
    """
    folders = path.rpartition("/")[0].split("/")
    found = (FOLDER.fullmatch(folder) for folder in folders)
    pairs = ((each[1], each[2]) for each in found if each)
    return {
        _decoded(name, path): None if value == MISSING else _decoded(value, path) for name, value in pairs
    }


def _decoded(name: str, path: str) -> str:
    try:
        return urllib.parse.unquote(name, errors="strict")
    except UnicodeDecodeError:
        raise InputError(
            f"input {path}",
            received=f"a folder with {name!r}, which is not UTF-8 once its % are decoded",
            expected="names and values of partition columns in UTF-8",
            action="Rename the folder.",
        ) from None


def _with_columns(raw: RawRows, columns: Mapping[str, list[str | None]]) -> RawRows:
    """`raw` with the columns; each has a value for each of the piece's files."""
    batch = raw.columns
    for name, of_files in columns.items():
        at = batch.schema.get_field_index(name)
        if at >= 0 and not raw.sparse:
            continue
        files = np.zeros(batch.num_rows, np.int64) if raw.files is None else raw.files
        cells = pa.array(of_files, pa.string()).take(pa.array(files))
        if at < 0:
            batch = batch.append_column(name, cells)
        elif batch.column(at).null_count:
            own = text.to_bytes(batch.column(at))
            batch = batch.set_column(at, name, pc.coalesce(own, cells.cast(own.type)))
    return raw if batch is raw.columns else dataclasses.replace(raw, columns=batch)
