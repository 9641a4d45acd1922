"""Parquet files, local or remote, in pieces of whole row groups."""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from beam_jobs.sources.columns import without_structs
from beam_jobs.sources.pieces import files
from beam_jobs.sources.pieces.source import Input, Piece, RawRows
from pipeline.data.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParquetFiles:
    """Typed columns; those inside structs are named by their path. Rows are numbered through the file."""

    piece_bytes: int = files.PIECE_BYTES
    batch_rows: int = 1 << 14

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        """Byte ranges. A row group belongs to the range in which it begins, so no footer is read here."""
        return [
            dataclasses.replace(piece, bytes=end - start, start=start, end=end)
            for piece in files.one_piece_a_file(inputs)
            for start, end in files.ranges(piece.bytes, self.piece_bytes)
        ]

    def read(self, piece: Piece) -> Iterator[RawRows]:
        [path] = piece.paths
        try:
            with files.open_seekable(path) as stream:
                yield from self._read(piece, pa.parquet.ParquetFile(stream))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"input {path}",
                received=f"something that does not read as Parquet ({' '.join(str(error).split())[:200]})",
                expected="a complete Parquet file",
                action="Check how this file was written, or leave it out.",
            ) from None

    def _read(self, piece: Piece, file: pa.parquet.ParquetFile) -> Iterator[RawRows]:
        metadata = file.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        first_rows = np.cumsum([0, *(group.num_rows for group in groups)])
        end = piece.bytes if piece.end is None else piece.end
        for number, group in enumerate(groups):
            if not piece.start <= _first_byte(group) < end:
                continue
            row = int(first_rows[number])
            for batch in file.iter_batches(self.batch_rows, row_groups=[number]):
                yield RawRows(
                    columns=without_structs(batch, piece.paths[0]),
                    sources=piece.paths[0].removeprefix(piece.root),
                    numbers=np.arange(row, row + batch.num_rows) + 1,
                    directory=files.directory_of(piece.paths[0]),
                )
                row += batch.num_rows


def _first_byte(group: pa.parquet.RowGroupMetaData) -> int:
    if not group.num_columns:
        return 0
    column = group.column(0)
    return column.dictionary_page_offset or column.data_page_offset
