"""TFRecord framing of many payloads at once (`pipeline/data/framing.py`)."""

import itertools
from collections.abc import Sequence

import google_crc32c
import numpy as np

from pipeline.data.framing import MASK, header


def frame(payloads: Sequence[bytes]) -> bytes:
    """The records as they stand in a TFRecord file, one after the other."""
    headers = (header(len(payload)) for payload in payloads)
    footers = _masked_crcs(payloads).view("V4").tolist()
    return b"".join(itertools.chain.from_iterable(zip(headers, payloads, footers, strict=True)))


def _masked_crcs(payloads: Sequence[bytes]) -> np.ndarray:
    """`masked_crc` of many payloads at once: little-endian uint32."""
    crc = np.fromiter(map(google_crc32c.value, payloads), np.uint32, len(payloads))
    return ((crc >> 15 | crc << 17) + np.uint32(MASK)).astype("<u4")
