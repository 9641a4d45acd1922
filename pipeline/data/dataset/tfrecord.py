"""TFRecord files without TensorFlow: their framing is written and checked here and nowhere else.

A frame holds one record: the payload's length (uint64), its masked CRC32C, the payload, its masked CRC32C.
All numbers are little-endian. Format:
https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details.

After a damaged length, the next record is found by its own checksum.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import google_crc32c
import numpy as np

CRC_BYTES = 4
_LENGTH_BYTES = 8
HEADER_BYTES = _LENGTH_BYTES + CRC_BYTES  # before each payload
FRAME_BYTES = HEADER_BYTES + CRC_BYTES  # around each payload

_MASK = 0xA282EAD8
_SEARCH_BYTES = 1 << 20  # 1 MiB


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    ordinal: int  # number in the file, from 0; after a damaged length, a lower bound
    offset: int  # byte of the file at which the frame starts
    payload: bytes


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DamagedFrame:
    """Bytes of a file that should be a record."""

    ordinal: int
    offset: int
    reason: str


def frame(payloads: Sequence[bytes]) -> bytes:
    """The frames of the payloads, one after the other."""
    headers = (_header(len(payload)) for payload in payloads)
    crcs = np.fromiter(map(google_crc32c.value, payloads), np.uint32, len(payloads))
    footers = _masked(crcs).astype("<u4").view("V4").tolist()
    return b"".join(itertools.chain.from_iterable(zip(headers, payloads, footers, strict=True)))


def payload_bytes(header: bytes) -> int | None:
    """The length in a frame's HEADER_BYTES; None if they are cut short or their checksum is wrong."""
    if len(header) != HEADER_BYTES or header[_LENGTH_BYTES:] != _masked_crc(header[:_LENGTH_BYTES]):
        return None
    return int.from_bytes(header[:_LENGTH_BYTES], "little")


def is_sound(payload: bytes, checksum: bytes) -> bool:
    """Returns whether `checksum`, the CRC_BYTES that follow the payload in its frame, is the payload's."""
    return checksum == _masked_crc(payload)


def are_sound(frames: Sequence[bytes]) -> bool:
    """Returns whether these frames are whole, with the right checksums; `problem` says what is wrong."""
    if any(frame[:HEADER_BYTES] != _header(max(0, len(frame) - FRAME_BYTES)) for frame in frames):
        return False
    crcs = [google_crc32c.value(frame[HEADER_BYTES:-CRC_BYTES]) for frame in frames]
    footers = np.frombuffer(b"".join([frame[-CRC_BYTES:] for frame in frames]), "<u4")
    return np.array_equal(_masked(np.array(crcs, np.uint32)), footers)


def problem(framed: bytes, *, length: int) -> str:
    """The problem of the frame of a payload of `length` bytes; empty if it has none."""
    if len(framed) < length + FRAME_BYTES:
        return f"the file ends {length + FRAME_BYTES - len(framed):,} bytes too early"
    if framed[:HEADER_BYTES] != _header(length):
        return f"its length is not {length:,}, or the length's checksum is wrong"
    if not is_sound(framed[HEADER_BYTES:-CRC_BYTES], framed[-CRC_BYTES:]):
        return _wrong_checksum(length)
    return ""


def read_records(file: BinaryIO, size: int) -> Iterator[Record | DamagedFrame]:
    """Everything in a file of `size` bytes, in order; `file` is seekable and uncompressed."""
    offset = ordinal = 0
    while offset < size:
        found, end = _read_one(file, offset, size, ordinal)
        yield found
        offset, ordinal = end, ordinal + 1


def _read_one(file: BinaryIO, offset: int, size: int, ordinal: int) -> tuple[Record | DamagedFrame, int]:
    """Reads the frame at `offset`; returns it and where it ends."""
    damaged = functools.partial(DamagedFrame, ordinal=ordinal, offset=offset)
    header = file.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return damaged(reason="the file ends inside the record's length"), size
    length = payload_bytes(header)
    if length is None:
        end = _next_header(file, offset + 1, size)
        file.seek(end)
        reason = f"the checksum of the record's length is wrong; {end - offset:,} bytes cannot be read"
        return damaged(reason=reason), end
    end = offset + length + FRAME_BYTES
    if end > size:
        return damaged(reason=f"the file ends inside the record, {end - size:,} bytes too early"), size
    payload = file.read(length)
    if not is_sound(payload, file.read(CRC_BYTES)):
        return damaged(reason=_wrong_checksum(length)), end
    return Record(ordinal=ordinal, offset=offset, payload=payload), end


def _wrong_checksum(length: int) -> str:
    return f"the checksum of its {length:,} bytes is wrong"


def _next_header(file: BinaryIO, start: int, size: int) -> int:
    """The first offset from `start` on at which a frame's header stands; `size` if there is none."""
    while start < size:
        file.seek(start)
        data = file.read(_SEARCH_BYTES + HEADER_BYTES - 1)
        # No record has 2**32 bytes, so the upper half of every length is zero.
        zeros = data.find(b"\0\0\0\0", 4)
        while 4 <= zeros <= len(data) - 8:
            if payload_bytes(data[zeros - 4 : zeros + 8]) is not None:
                return start + zeros - 4
            zeros = data.find(b"\0\0\0\0", zeros + 1)
        start += _SEARCH_BYTES
    return size


@functools.lru_cache(maxsize=1 << 16)
def _header(length: int) -> bytes:
    """The header of a payload of `length` bytes, HEADER_BYTES long."""
    packed = length.to_bytes(_LENGTH_BYTES, "little")
    return packed + _masked_crc(packed)


def _masked_crc(data: bytes) -> bytes:
    """The CRC_BYTES that follow `data`; masked, because a CRC over bytes that hold CRCs is weak."""
    return _masked(google_crc32c.value(data)).to_bytes(CRC_BYTES, "little")


def _masked(crc: int | np.ndarray) -> int | np.ndarray:
    """Masks one CRC, or uint32 [n]."""
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


# --- The parts of a serialized `tf.train.Example` that precede values, written without protobuf.

# Wire format: https://protobuf.dev/programming-guides/encoding/; messages: tensorflow/core/example/*.proto.
# Tags: field number << 3 | 2, where 2 is "length-delimited".
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"
_LIST_TAG = {"bytes": _FIELD_1, "float": _FIELD_2, "int64": _FIELD_3}  # tags of `Feature`'s oneof


def example_head(length: int) -> bytes:
    """The bytes before the map entries, which take `length` bytes: Example.features = 1."""
    return _FIELD_1 + varint(length)


def bytes_head(length: int) -> bytes:
    """The bytes before each of the values of a BytesList: BytesList.value = 1."""
    return _FIELD_1 + varint(length)


def entry_head(name: bytes, wire: str, length: int, *, is_list: bool = False) -> bytes:
    """The bytes before a payload of `length` bytes in a map entry: Features.feature = 1 {key = 1, value = 2}.

    The payload is one bytes value, or packed numbers: field 1 of BytesList, FloatList and Int64List alike. A
    payload of several bytes values (`is_list`) has the head of each in it already.
    """
    values = b"" if is_list and wire == "bytes" else bytes_head(length)
    kind = _LIST_TAG[wire] + varint(len(values) + length) + values
    value = _FIELD_2 + varint(len(kind) + length) + kind
    key = _FIELD_1 + varint(len(name)) + name
    return _FIELD_1 + varint(len(key) + len(value) + length) + key + value


VARINT_BYTES = 10  # the most bytes of a number below 2^64: 7 bits in each byte


def varint(number: int) -> bytes:
    """Encodes a whole number from 0 on, with 7 bits in each byte, the lowest bits first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
