"""Avro object container files, with any codec whose library is installed; a piece for each file."""

import dataclasses
import io
from collections.abc import Iterable, Iterator

import fastavro
import pyarrow as pa

from beam_jobs.sources.bytes.avro_blocks import read_blocks
from beam_jobs.sources.bytes.batches import in_batches
from beam_jobs.sources.columns import NumberedRow, raw_rows
from beam_jobs.sources.pieces import files
from beam_jobs.sources.pieces.source import Input, Piece, RawRows
from pipeline.data.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class AvroFiles:
    """Columns are named by path. A null, or a branch of a union without the field, is a missing value."""

    batch_rows: int = 1 << 12

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        return files.one_piece_a_file(inputs)

    def read(self, piece: Piece) -> Iterator[RawRows]:
        [path] = piece.paths
        try:
            with files.open_seekable(path) as stream:
                sized = enumerate(_sized(stream, path), 1)
                for batch in in_batches(sized, at_most=self.batch_rows, size=lambda row: row[1][1]):
                    yield raw_rows(piece, [NumberedRow(number, record) for number, (record, _) in batch])
        # Broken bytes lead fastavro to any exception.
        except Exception as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"input {path}",
                received=f"something that does not read as Avro ({type(error).__name__}: {error})",
                expected="a complete Avro object container file with records",
                action="Check how this file was written, and that the library for its codec is installed.",
            ) from None


def _sized(stream: pa.NativeFile, path: str) -> Iterator[tuple[dict, int]]:
    """Each record with its bytes."""
    schema, blocks = read_blocks(stream, path)
    for block in blocks:
        data, start = io.BytesIO(block.data), 0
        for _ in range(block.count):
            record = fastavro.schemaless_reader(data, schema, None)
            yield record, data.tell() - start
            start = data.tell()
