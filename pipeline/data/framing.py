"""A record in a TFRecord file: length, masked CRC32C of the length, payload, masked CRC32C of the payload.

Format: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details.
"""

import functools

import google_crc32c

CRC_BYTES = 4
HEADER_BYTES = 8 + CRC_BYTES  # before each payload
FRAME_BYTES = HEADER_BYTES + CRC_BYTES  # around each payload

MASK = 0xA282EAD8


def masked_crc(data: bytes) -> bytes:
    """The 4 bytes that TFRecord puts behind `data`; masked, as a CRC over bytes that hold CRCs is weak."""
    crc = google_crc32c.value(data)
    return (((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF).to_bytes(CRC_BYTES, "little")


@functools.lru_cache(maxsize=1 << 16)
def header(length: int) -> bytes:
    """The 12 bytes that TFRecord puts before a payload of so many bytes."""
    packed = length.to_bytes(8, "little")
    return packed + masked_crc(packed)
