"""TFRecord framing: length, masked CRC32C of the length, payload, masked CRC32C of the payload.

Format: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details.
"""

import functools
import itertools
import struct
from collections.abc import Sequence

import google_crc32c
import numpy as np

CRC_BYTES = 4
HEADER_BYTES = 8 + CRC_BYTES  # before each payload
FRAME_BYTES = HEADER_BYTES + CRC_BYTES  # around each payload

_MASK = 0xA282EAD8


def frame(payloads: Sequence[bytes]) -> bytes:
    """The records as they stand in a TFRecord file, one after the other."""
    headers = (_header(len(payload)) for payload in payloads)
    footers = _masked_crcs(payloads).view("V4").tolist()
    return b"".join(itertools.chain.from_iterable(zip(headers, payloads, footers, strict=True)))


@functools.lru_cache(maxsize=1 << 16)
def _header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + masked_crc(packed)


def masked_crc(data: bytes) -> bytes:
    """The 4 bytes that TFRecord puts behind `data`; masked, as a CRC over bytes that hold CRCs is weak."""
    crc = google_crc32c.value(data)
    return (((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF).to_bytes(CRC_BYTES, "little")


def _masked_crcs(payloads: Sequence[bytes]) -> np.ndarray:
    """`masked_crc` of many payloads at once: little-endian uint32."""
    crc = np.fromiter(map(google_crc32c.value, payloads), np.uint32, len(payloads))
    return ((crc >> 15 | crc << 17) + np.uint32(_MASK)).astype("<u4")
