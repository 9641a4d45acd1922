"""The records of a TFRecord file, each with whether its checksum is right."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from pipeline.data.dataset.tfrecord import CRC_BYTES, FRAME_BYTES, HEADER_BYTES, is_sound, payload_bytes
from pipeline.data.errors import InputError

_READ_BYTES = 8 << 20  # 8 MiB
_RECORD_BYTES = 128 << 20  # 128 MiB: a worker holds a record several times


class Frame(NamedTuple):
    payload: bytes
    is_intact: bool


def read_frames(stream: pa.NativeFile, path: str) -> Iterator[Frame]:
    """Raises InputError, with the offset, where a length is wrong or the file ends within a record."""
    buffer, at, offset = b"", 0, 0
    while True:
        if len(buffer) - at < HEADER_BYTES:
            buffer, at = buffer[at:] + stream.read(_READ_BYTES), 0
            if not buffer:
                return
        if len(buffer) - at < HEADER_BYTES:
            raise _error(path, offset, "the end of the file within a record")
        length = payload_bytes(buffer[at : at + HEADER_BYTES])
        if length is None:
            raise _error(path, offset, "a length whose checksum does not match")
        if length > _RECORD_BYTES:
            raise _error(
                path, offset, f"a record of {length:,} bytes, of which {_RECORD_BYTES >> 20} MiB are read"
            )
        end = at + FRAME_BYTES + length
        if len(buffer) < end:
            buffer, end, at = buffer[at:] + stream.read(max(_READ_BYTES, end - len(buffer))), end - at, 0
        if len(buffer) < end:
            raise _error(path, offset, "the end of the file within a record")
        payload = buffer[at + HEADER_BYTES : end - CRC_BYTES]
        yield Frame(payload, is_sound(payload, buffer[end - CRC_BYTES : end]))
        offset += end - at
        at = end


def _error(path: str, offset: int, received: str) -> InputError:
    return InputError(
        f"input {path}, byte {offset:,}",
        received=received,
        expected="TFRecords: length, checksum, payload, checksum",
        action="Check that this is a complete TFRecord file (gzip is recognised); or leave it out.",
    )
