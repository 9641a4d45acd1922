"""TFRecord framing: length, masked CRC32C of the length, payload, masked CRC32C of the payload.

Format: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details.
"""

import functools
import itertools
import struct
from collections.abc import Sequence

import google_crc32c
import numpy as np

HEADER_BYTES = 8 + 4  # before each payload
FRAME_BYTES = HEADER_BYTES + 4  # around each payload


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
    return _masked_crcs([data]).tobytes()


def _masked_crcs(payloads: Sequence[bytes]) -> np.ndarray:
    """Little-endian uint32; masked, because a CRC over bytes that hold CRCs would be weak."""
    crc = np.fromiter(map(google_crc32c.value, payloads), np.uint32, len(payloads))
    return ((crc >> 15 | crc << 17) + np.uint32(0xA282EAD8)).astype("<u4")
