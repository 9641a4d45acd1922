"""The records of a TFRecord file, each with its place and whether its checksum is right."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from pipeline.data.errors import InputError
from pipeline.data.framing import CRC_BYTES, FRAME_BYTES, HEADER_BYTES, masked_crc

_READ_BYTES = 8 << 20  # 8 MiB


class Frame(NamedTuple):
    payload: bytes
    is_intact: bool


def read_frames(stream: pa.NativeFile, path: str) -> Iterator[Frame]:
    """Raises InputError where the file stops making sense: a length that is wrong, an end that is missing."""
    buffer, at, offset = b"", 0, 0
    while True:
        if len(buffer) - at < HEADER_BYTES:
            buffer, at = buffer[at:] + stream.read(_READ_BYTES), 0
            if not buffer:
                return
        if len(buffer) - at < HEADER_BYTES:
            raise _error(path, offset, "the end of the file within a record")
        packed, crc = buffer[at : at + 8], buffer[at + 8 : at + HEADER_BYTES]
        if masked_crc(packed) != crc:
            raise _error(path, offset, "a length whose checksum does not match")
        end = at + FRAME_BYTES + int.from_bytes(packed, "little")
        if len(buffer) < end:
            buffer, end, at = buffer[at:] + stream.read(max(_READ_BYTES, end - len(buffer))), end - at, 0
        if len(buffer) < end:
            raise _error(path, offset, "the end of the file within a record")
        payload = buffer[at + HEADER_BYTES : end - CRC_BYTES]
        yield Frame(payload, masked_crc(payload) == buffer[end - CRC_BYTES : end])
        offset += end - at
        at = end


def _error(path: str, offset: int, received: str) -> InputError:
    return InputError(
        f"input {path}, byte {offset:,}",
        received=received,
        expected="TFRecords: length, checksum, payload, checksum",
        action="Check that this is a complete TFRecord file (gzip is recognised); or leave it out.",
    )
