"""Avro object container files, with any codec whose library is installed; an input split for each file."""

import dataclasses
from collections.abc import Iterable, Iterator

import fastavro
import pyarrow as pa

from beam_jobs.sources import files
from beam_jobs.sources.byte_streams import in_batches
from beam_jobs.sources.columns import NumberedRow, raw_rows
from beam_jobs.sources.source import Input, InputSplit, RawRows
from pipeline.base.errors import InputError

_BLOCK_BYTES = 128 << 20  # 128 MiB, the longest record of the other formats


@dataclasses.dataclass(frozen=True, kw_only=True)
class AvroFiles:
    """Columns are named by path. A null, or a branch of a union without the field, is a missing value."""

    batch_rows: int = 1 << 12

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        return files.one_split_a_file(inputs)

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        [path] = input_split.paths
        try:
            with files.open_seekable(path) as stream:
                sized = enumerate(_sized(stream, path), 1)
                for batch in in_batches(sized, at_most=self.batch_rows, size=lambda row: row[1][1]):
                    yield raw_rows(
                        input_split, [NumberedRow(number, record) for number, (record, _) in batch]
                    )
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
    blocks = fastavro.block_reader(stream)
    schema, end = fastavro.parse_schema(blocks.writer_schema), stream.tell()
    for block in blocks:
        if block.num_records < 0:
            raise ValueError(f"a block of {block.num_records:,} records")
        if block.bytes_.getbuffer().nbytes > _BLOCK_BYTES:
            raise _too_long(path, block.offset)
        start = 0
        for _ in range(block.num_records):
            record = fastavro.schemaless_reader(block.bytes_, schema, None)
            yield record, block.bytes_.tell() - start
            start = block.bytes_.tell()
        end = block.offset + block.size
    if end < stream.size():  # fastavro stops there without an error
        raise EOFError("the file ends within the head of a block")


def _too_long(path: str, offset: int) -> InputError:
    return InputError(
        f"input {path}, byte {offset:,}",
        received=f"a block of more than {_BLOCK_BYTES >> 20} MiB, decompressed",
        expected="blocks that a worker can hold; usual ones have 16 KiB",
        action="Write the file with a smaller sync interval, leave the large cells out, or leave it out.",
    )
