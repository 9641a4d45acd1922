"""The origins of one shard's rows, as a file: packed to as few bits as they need, found without a search.

A file of two parts, all numbers little-endian. First a header of 88 bytes:

  18 bytes  the magic `penstock.origins/1`
  uint8     bits of a file's number, f, and uint8 bits of a row's number, r
  uint32    checksum (CRC-32) of the 84 bytes of the header that are no checksum
  uint64    the number of rows, and uint64 the lowest number of a file, which is added to each
  16 bytes  which list of files it tells of (`files.py`)
  32 bytes  SHA-256 of the shard

Then chunks of 4,096 rows, the last one shorter: f + r bits a row, the lowest bit first, filled up to whole
bytes; and uint32, their checksum. The low r bits of a row are its number in the file, 0 where the file is one
row; the others number the file.

Standard library and numpy only.
"""

import dataclasses
import struct
import zlib
from collections.abc import Iterator

import numpy as np

from pipeline.data import bit_packing

ROW_BITS = 32  # of a row's number, in a number of 64 bits that holds it below that of the file
CHUNK_ROWS = 1 << 12
CHECKSUM_BYTES = 4

_MAGIC = b"penstock.origins/1"
_HEAD = struct.Struct("<18sBB")
_REST = struct.Struct("<QQ16s32s")
HEADER_BYTES = _HEAD.size + CHECKSUM_BYTES + _REST.size


class DamagedError(ValueError):
    """The bytes are not what was written."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Header:
    """What the bytes that follow are."""

    rows: int
    file_bits: int
    row_bits: int
    lowest_file: int
    files_id: bytes
    shard_sha256: str

    @property
    def bits(self) -> int:
        return self.file_bits + self.row_bits

    def chunk(self, number: int) -> tuple[int, int]:
        """Offset and rows of a chunk."""
        size = bit_packing.packed_bytes(self.bits, CHUNK_ROWS) + CHECKSUM_BYTES
        return HEADER_BYTES + number * size, min(CHUNK_ROWS, self.rows - number * CHUNK_ROWS)

    def chunk_bytes(self, rows: int) -> int:
        """Of a chunk of so many rows, with its checksum."""
        return bit_packing.packed_bytes(self.bits, rows) + CHECKSUM_BYTES

    @property
    def chunks(self) -> int:
        return -(-self.rows // CHUNK_ROWS)

    @property
    def bytes(self) -> int:
        """Of the whole file."""
        if not self.rows:
            return HEADER_BYTES
        offset, rows = self.chunk(self.chunks - 1)
        return offset + self.chunk_bytes(rows)


def packed(places: np.ndarray, *, files_id: bytes, shard_sha256: str) -> Iterator[bytes]:
    """The content of the file, in parts. `places`, uint64 [rows], are of `place`, in stored order."""
    files, rows = places >> np.uint64(ROW_BITS), places & np.uint64((1 << ROW_BITS) - 1)
    lowest = int(files.min()) if len(files) else 0
    header = Header(
        rows=len(places),
        file_bits=(int(files.max()) - lowest).bit_length() if len(files) else 0,
        row_bits=int(rows.max()).bit_length() if len(rows) else 0,
        lowest_file=lowest,
        files_id=files_id,
        shard_sha256=shard_sha256,
    )
    yield _dumps(header)
    for start in range(0, len(places), CHUNK_ROWS):
        some = slice(start, start + CHUNK_ROWS)
        numbers = (files[some] - np.uint64(lowest)) << np.uint64(header.row_bits) | rows[some]
        content = bit_packing.packed(numbers, header.bits)
        yield content + zlib.crc32(content).to_bytes(CHECKSUM_BYTES, "little")


def place(files: np.ndarray | int, rows: np.ndarray) -> np.ndarray:
    """uint64 [rows]: the file's number above that of the row, int64 [rows]. Larger ones than fit become 0."""
    fits = (rows >= 0) & (rows < 1 << ROW_BITS)
    low = np.where(fits, rows, 0).astype(np.uint64)
    return np.asarray(files, np.uint64) << np.uint64(ROW_BITS) | low


def header(content: bytes) -> Header:
    """Raises DamagedError unless `content` begins with a header."""
    head, rest = content[: _HEAD.size], content[_HEAD.size + CHECKSUM_BYTES : HEADER_BYTES]
    checksum = int.from_bytes(content[_HEAD.size : _HEAD.size + CHECKSUM_BYTES], "little")
    if len(rest) < _REST.size or not head.startswith(_MAGIC) or zlib.crc32(head + rest) != checksum:
        raise DamagedError("no header of origins")
    _, file_bits, row_bits = _HEAD.unpack(head)
    rows, lowest_file, files_id, sha256 = _REST.unpack(rest)
    return Header(
        rows=rows,
        file_bits=file_bits,
        row_bits=row_bits,
        lowest_file=lowest_file,
        files_id=files_id,
        shard_sha256=sha256.hex(),
    )


def unpacked(content: bytes, header: Header, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the files, and of the rows there, int64 [rows] each, of a chunk of so many rows.

    Raises DamagedError where its bytes do not fit the checksum.
    """
    packed_rows, checksum = content[:-CHECKSUM_BYTES], content[-CHECKSUM_BYTES:]
    is_whole = len(content) == header.chunk_bytes(rows)
    if not is_whole or zlib.crc32(packed_rows) != int.from_bytes(checksum, "little"):
        raise DamagedError("other bytes than were written")
    numbers = bit_packing.unpacked(packed_rows, header.bits, rows)
    low = numbers & np.uint64((1 << header.row_bits) - 1)
    files = numbers >> np.uint64(header.row_bits)
    return files.astype(np.int64) + header.lowest_file, low.astype(np.int64)


def _dumps(header: Header) -> bytes:
    head = _HEAD.pack(_MAGIC, header.file_bits, header.row_bits)
    sha256 = bytes.fromhex(header.shard_sha256)
    rest = _REST.pack(header.rows, header.lowest_file, header.files_id, sha256)
    return head + zlib.crc32(head + rest).to_bytes(CHECKSUM_BYTES, "little") + rest
