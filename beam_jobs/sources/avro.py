"""Avro object container files, with any codec whose library is installed; an input split for each file."""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

import fastavro
import pyarrow as pa
from fastavro.types import Schema

from beam_jobs.cells.text import NO_SUCH_TIME
from beam_jobs.sources import files
from beam_jobs.sources.byte_streams import in_batches
from beam_jobs.sources.columns import NumberedRow, raw_rows
from beam_jobs.sources.source import Input, InputSplit, RawRows, Rejection, excerpt
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
                for batch in in_batches(sized, at_most=self.batch_rows, size=lambda row: row[1].bytes):
                    yield raw_rows(
                        input_split,
                        [NumberedRow(number, each.record) for number, each in batch if not each.reason],
                        rejected=[_rejection(input_split, *each) for each in batch if each[1].reason],
                    )
        # fastavro raises exceptions of any class on broken bytes.
        except Exception as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"input {path}",
                received=f"something that does not read as Avro ({type(error).__name__}: {error})",
                expected="a complete Avro object container file with records",
                action="Check how this file was written, and that the library for its codec is installed.",
            ) from None


class _Read(NamedTuple):
    record: dict
    bytes: int
    reason: str = ""  # why the record is rejected


def _sized(stream: pa.NativeFile, path: str) -> Iterator[_Read]:
    """Each record with its bytes."""
    blocks = fastavro.block_reader(stream)
    schema, end = fastavro.parse_schema(blocks.writer_schema), stream.tell()
    plain = fastavro.parse_schema(_without_logical_types(blocks.writer_schema))
    for block in blocks:
        if block.num_records < 0:
            raise ValueError(f"a block of {block.num_records:,} records")
        if block.bytes_.getbuffer().nbytes > _BLOCK_BYTES:
            raise _too_long(path, block.offset)
        start = 0
        for _ in range(block.num_records):
            record, reason = _record(block.bytes_, schema, plain)
            yield _Read(record, block.bytes_.tell() - start, reason)
            start = block.bytes_.tell()
        end = block.offset + block.size
    if end < stream.size():  # fastavro stops at the end of a cut file without an error
        raise EOFError("the file ends within the head of a block")


def _record(stream: BinaryIO, schema: Schema, plain: Schema) -> tuple[dict, str]:
    """Returns the next record, and why it is rejected: a number that is no date or time of its logical type.

    The record keeps that number, so that the records after it are read.
    """
    start = stream.tell()
    try:
        return fastavro.schemaless_reader(stream, schema, None), ""
    except (OverflowError, ValueError):
        stream.seek(start)
        return fastavro.schemaless_reader(stream, plain, None), NO_SUCH_TIME


def _without_logical_types(schema: Schema) -> Schema:
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    if isinstance(schema, dict):
        return {key: _without_logical_types(each) for key, each in schema.items() if key != "logicalType"}
    return schema


def _rejection(input_split: InputSplit, number: int, read: _Read) -> Rejection:
    cells = json.dumps(read.record, default=str, ensure_ascii=False)
    return Rejection(source=input_split.name, row=number, reason=read.reason, raw=excerpt(cells))


def _too_long(path: str, offset: int) -> InputError:
    return InputError(
        f"input {path}, byte {offset:,}",
        received=f"a block of more than {_BLOCK_BYTES >> 20} MiB, decompressed",
        expected="blocks that a worker can hold; usual ones have 16 KiB",
        action="Write the file with a smaller sync interval, leave the large cells out, or leave it out.",
    )
