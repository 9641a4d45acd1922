"""TFRecord framing: length, masked CRC32C of the length, payload, masked CRC32C of the payload.

Format: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details.
"""

import functools
import struct
from collections.abc import Iterable, Iterator

import google_crc32c


def frame(records: Iterable[bytes]) -> Iterator[bytes]:
    """Each record as it stands in a TFRecord file."""
    for record in records:
        yield b"".join((_header(len(record)), record, masked_crc(record)))


@functools.lru_cache(maxsize=1 << 16)
def _header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + masked_crc(packed)


def masked_crc(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + 0xA282EAD8) & 0xFFFFFFFF)
