"""Reads TFRecord files record by record, without TensorFlow, and goes on behind what is damaged.

Framing: `pipeline/data/framing.py`. Behind a damaged length the next record is found by its own checksum.
"""

import dataclasses
import struct
from collections.abc import Iterator
from typing import BinaryIO

from pipeline.data.framing import CRC_BYTES, HEADER_BYTES, masked_crc

_SEARCH_BYTES = 1 << 20  # 1 MiB


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    ordinal: int  # 0-based; behind a damaged length, a lower bound
    offset: int  # of the record's first byte in the file
    payload: bytes


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """What stands where a record should."""

    ordinal: int
    offset: int
    reason: str


def read_records(file: BinaryIO, size: int) -> Iterator[Record | Damage]:
    """Everything in a file of `size` bytes, in order; `file` is seekable and uncompressed."""
    offset = ordinal = 0
    while offset < size:
        found, end = _read_one(file, offset, size, ordinal)
        yield found
        offset, ordinal = end, ordinal + 1


def _read_one(file: BinaryIO, offset: int, size: int, ordinal: int) -> tuple[Record | Damage, int]:
    """What stands at `offset`, and where it ends."""
    header = file.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return Damage(ordinal=ordinal, offset=offset, reason="the file ends inside the record's length"), size
    if not _is_header(header):
        end = _next_header(file, offset + 1, size)
        file.seek(end)
        reason = f"the checksum of the record's length is wrong; {end - offset:,} bytes cannot be read"
        return Damage(ordinal=ordinal, offset=offset, reason=reason), end
    (length,) = struct.unpack_from("<Q", header)
    end = offset + HEADER_BYTES + length + CRC_BYTES
    if end > size:
        reason = f"the file ends inside the record, {end - size:,} bytes too early"
        return Damage(ordinal=ordinal, offset=offset, reason=reason), size
    payload, crc = file.read(length), file.read(CRC_BYTES)
    if crc != masked_crc(payload):
        reason = f"the checksum of its {length:,} bytes is wrong"
        return Damage(ordinal=ordinal, offset=offset, reason=reason), end
    return Record(ordinal=ordinal, offset=offset, payload=payload), end


def _is_header(header: bytes) -> bool:
    return len(header) == HEADER_BYTES and header[8:] == masked_crc(header[:8])


def _next_header(file: BinaryIO, start: int, size: int) -> int:
    """The first offset from `start` on where a record's header stands; `size` if there is none."""
    while start < size:
        file.seek(start)
        data = file.read(_SEARCH_BYTES + HEADER_BYTES - 1)
        # No record has 2**32 bytes, so the upper half of every length is zero.
        zeros = data.find(b"\0\0\0\0", 4)
        while 4 <= zeros <= len(data) - 8:
            if _is_header(data[zeros - 4 : zeros + 8]):
                return start + zeros - 4
            zeros = data.find(b"\0\0\0\0", zeros + 1)
        start += _SEARCH_BYTES
    return size
