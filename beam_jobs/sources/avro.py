"""Avro object container files, with any codec whose library is installed; a piece for each file."""

import bz2
import dataclasses
import io
import lzma
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import fastavro
import pyarrow as pa

from beam_jobs.sources import files
from beam_jobs.sources.byte_streams import in_batches
from beam_jobs.sources.columns import NumberedRow, raw_rows
from beam_jobs.sources.source import Input, Piece, RawRows
from pipeline.base.errors import InputError


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


# --- The blocks of an Avro object container file, decompressed no further than a worker can hold.
#
# fastavro decompresses whatever is there: 300 KB of zeros become 300 MB.


_BLOCK_BYTES = 128 << 20  # 128 MiB, the longest record of the other formats
_SYNC_BYTES = 16
_VARINT_BYTES = 10  # of 64 bits, 7 a byte


class Block(NamedTuple):
    count: int  # of records
    data: bytes


class _TooLongError(Exception):
    """A block has more than _BLOCK_BYTES."""


def read_blocks(stream: pa.NativeFile, path: str) -> tuple[dict, Iterator[Block]]:
    """The schema that wrote the file, parsed, and its blocks.

    Raises InputError for a block of more than 128 MiB, and any exception for bytes that are no Avro.
    """
    header = fastavro.reader(stream)
    codec = header.metadata.get("avro.codec", "null")
    if codec not in _UNPACK:
        raise ValueError(f"unknown codec {codec}")
    return fastavro.parse_schema(header.writer_schema), _blocks(stream, _UNPACK[codec], path)


def _blocks(stream: pa.NativeFile, unpack: Callable[[bytes], bytes], path: str) -> Iterator[Block]:
    # fastavro has read the header, which the sync marker ends.
    stream.seek(stream.tell() - _SYNC_BYTES)
    sync = stream.read(_SYNC_BYTES)
    while (count := _long(stream, may_end=True)) is not None:
        start, stored = stream.tell(), _long(stream)
        try:
            data = unpack(_exactly(stream, stored))
        except _TooLongError:
            raise _too_long(path, start) from None
        if _exactly(stream, _SYNC_BYTES) != sync:
            raise ValueError(f"no sync marker after the block at byte {start:,}")
        yield Block(count, data)


def _long(stream: pa.NativeFile, *, may_end: bool = False) -> int | None:
    """A zigzag varint that is not negative; None where the file ends, if it may."""
    number = 0
    for place in range(_VARINT_BYTES):
        byte = stream.read(1)
        if not byte and may_end and not place:
            return None
        [digit] = byte or _exactly(stream, 1)
        number |= (digit & 0x7F) << 7 * place
        if digit < 0x80:
            break
    if number & 1 or number >> 64:
        raise ValueError(f"a length of {(number >> 1) ^ -(number & 1)}")
    return number >> 1


def _exactly(stream: pa.NativeFile, size: int) -> bytes:
    if size > _BLOCK_BYTES:
        raise _TooLongError
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the file ends within a block")
    return data


def _bounded(make: Callable[[], object]) -> Callable[[bytes], bytes]:
    """`make` gives a decompressor of the standard library."""

    def unpack(data: bytes) -> bytes:
        decompressor = make()
        found = decompressor.decompress(data, _BLOCK_BYTES + 1)
        if len(found) <= _BLOCK_BYTES and not decompressor.eof:
            raise EOFError("the compressed bytes of a block end too early")
        return _checked(found)

    return unpack


def _checked(data: bytes) -> bytes:
    if len(data) > _BLOCK_BYTES:
        raise _TooLongError
    return data


def _snappy(data: bytes) -> bytes:
    """Snappy, which begins with the length, and a checksum of four bytes."""
    packed, length = data[:-4], 0
    for place, digit in enumerate(packed[:5]):
        length |= (digit & 0x7F) << 7 * place
        if digit < 0x80:
            break
    return _of_length(packed, length, "snappy")


def _lz4(data: bytes) -> bytes:
    return _of_length(data[4:], struct.unpack_from("<I", data)[0], "lz4_raw")


def _of_length(packed: bytes, length: int, codec: str) -> bytes:
    if length > _BLOCK_BYTES:
        raise _TooLongError
    return pa.decompress(packed, length, codec, asbytes=True)


def _zstandard(data: bytes) -> bytes:
    with pa.input_stream(pa.BufferReader(data), compression="zstd") as stream:
        return _checked(stream.read(_BLOCK_BYTES + 1))


_UNPACK: Mapping[str, Callable[[bytes], bytes]] = {
    "null": _checked,
    "deflate": _bounded(lambda: zlib.decompressobj(-zlib.MAX_WBITS)),
    "bzip2": _bounded(bz2.BZ2Decompressor),
    "xz": _bounded(lzma.LZMADecompressor),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "lz4": _lz4,
}


def _too_long(path: str, offset: int) -> InputError:
    return InputError(
        f"input {path}, byte {offset:,}",
        received=f"a block of more than {_BLOCK_BYTES >> 20} MiB, decompressed",
        expected="blocks that a worker can hold; usual ones have 16 KiB",
        action="Write the file with a smaller sync interval, leave the large cells out, or leave it out.",
    )
