"""The records of a TFRecord file, each with its place and whether its checksum is right."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c
import pyarrow as pa

from pipeline.data.errors import InputError

_HEADER = struct.Struct("<QI")  # length of the payload, masked CRC32C of the length
_FOOTER = struct.Struct("<I")
_READ_BYTES = 8 << 20  # 8 MiB


class Frame(NamedTuple):
    payload: bytes
    is_intact: bool


def read_frames(stream: pa.NativeFile, path: str) -> Iterator[Frame]:
    """Raises InputError where the file stops making sense: a length that is wrong, an end that is missing."""
    buffer, at, offset = b"", 0, 0
    while True:
        if len(buffer) - at < _HEADER.size:
            buffer, at = buffer[at:] + stream.read(_READ_BYTES), 0
            if not buffer:
                return
        if len(buffer) - at < _HEADER.size:
            raise _error(path, offset, "the end of the file within a record")
        length, crc = _HEADER.unpack_from(buffer, at)
        if _masked(buffer[at : at + 8]) != crc:
            raise _error(path, offset, "a length whose checksum does not match")
        end = at + _HEADER.size + length + _FOOTER.size
        if len(buffer) < end:
            buffer, end, at = buffer[at:] + stream.read(max(_READ_BYTES, end - len(buffer))), end - at, 0
        if len(buffer) < end:
            raise _error(path, offset, "the end of the file within a record")
        payload = buffer[at + _HEADER.size : end - _FOOTER.size]
        [crc] = _FOOTER.unpack_from(buffer, end - _FOOTER.size)
        yield Frame(payload, _masked(payload) == crc)
        offset += end - at
        at = end


def _masked(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _error(path: str, offset: int, received: str) -> InputError:
    return InputError(
        f"input {path}, byte {offset:,}",
        received=received,
        expected="TFRecords: length, checksum, payload, checksum",
        action="Check that this is a complete TFRecord file (gzip is recognised); or leave it out.",
    )
