"""TFRecord framing of many payloads at once (`pipeline/data/framing.py`)."""

import functools
import itertools
import struct
from collections.abc import Sequence

import google_crc32c
import numpy as np

from pipeline.data.framing import MASK, masked_crc


def frame(payloads: Sequence[bytes]) -> bytes:
    """The records as they stand in a TFRecord file, one after the other."""
    headers = (_header(len(payload)) for payload in payloads)
    footers = _masked_crcs(payloads).view("V4").tolist()
    return b"".join(itertools.chain.from_iterable(zip(headers, payloads, footers, strict=True)))


@functools.lru_cache(maxsize=1 << 16)
def _header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + masked_crc(packed)


def _masked_crcs(payloads: Sequence[bytes]) -> np.ndarray:
    """`masked_crc` of many payloads at once: little-endian uint32."""
    crc = np.fromiter(map(google_crc32c.value, payloads), np.uint32, len(payloads))
    return ((crc >> 15 | crc << 17) + np.uint32(MASK)).astype("<u4")
