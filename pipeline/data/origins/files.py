"""The raw files of a dataset, as a file: found by number, in chunks that are read one at a time.

All numbers are little-endian:

  24 bytes  the magic `penstock.origin-files/1`, and a byte 0
  16 bytes  the id by which the origins of the shards name this list
  uint64    the number n of entries, and uint64 the number c of chunks
  uint64    [c] the offset at which each chunk ends, from the end of this head
  uint32    [c] the checksum (CRC-32) of each chunk
  uint32    the checksum of all before it

Then the chunks, JSON that LZMA has compressed: first an object with the directory that all names start from,
`root`, and what ends a line, `line_ends`; then lists of 1,024 entries. An entry is a list of the fields of
`Entry`, without the last ones that have their defaults. A file that was read in parts has an entry for each
part.

Standard library and numpy only.
"""

import dataclasses
import hashlib
import json
import lzma
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.base import bits
from pipeline.base.errors import DamagedError

_FILES_MAGIC = b"penstock.origin-files/1\0"
_FILE_HEAD = struct.Struct("<24s16sQQ")
_CHUNK = 1 << 10
ID_BYTES = 16
HEAD_BYTES = _FILE_HEAD.size


# Values of `line_ends`; "any": also \r\n, and \r alone; see `ends_of_rows`.
LINE_FEED, ANY_LINE_END = "\n", "any"


class Entry(NamedTuple):
    """A raw file, or a part of one. Only files of lines, whose rows can be read again, have the last two
    fields.
    """

    name: str
    rows_before: int = 0  # rows of the file before this part, in which rows are numbered from 0
    start: int = 0  # byte of the file at which the part starts
    file_bytes: int = 0  # bytes of the whole file, when it was converted


class Folder(NamedTuple):
    root: str  # directory from which their names start
    line_ends: str = ""  # LINE_FEED or ANY_LINE_END; empty: their rows are not numbered by lines


def ends_of_rows(*, quote: str, escape: str) -> str:
    """Returns `line_ends` of CSV: line ends that are neither in quotes nor after an escape; "none": CSV has
    no such character.
    """
    return ANY_LINE_END if (quote, escape) == ('"', "none") else f"{ANY_LINE_END} {quote} {escape}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """Where the chunks are: offsets int64 [c + 1] in the file, and checksums uint32 [c]."""

    files_id: bytes
    entries: int
    offsets: np.ndarray
    checksums: np.ndarray

    def chunk_of(self, entry: int) -> tuple[int, int]:
        """The chunk that has an entry, and the entry's place in it."""
        return 1 + entry // _CHUNK, entry % _CHUNK


def id_of(names: Iterable[str]) -> bytes:
    """The id by which origins refer to a list of files: a digest of `names`, in order."""
    digest = hashlib.blake2b(digest_size=ID_BYTES)
    for name in names:
        encoded = name.encode("utf-8", "surrogateescape")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()


def dumps(entries: Sequence[Entry], *, folder: Folder, files_id: bytes) -> bytes:
    chunks = [_packed(folder._asdict()), *map(_packed, _grouped(entries))]
    ends = np.cumsum(list(map(len, chunks)), dtype="<u8")
    checksums = np.array(list(map(zlib.crc32, chunks)), "<u4")
    counts = _FILE_HEAD.pack(_FILES_MAGIC, files_id, len(entries), len(chunks))
    head = counts + ends.tobytes() + checksums.tobytes()
    return b"".join((head, zlib.crc32(head).to_bytes(4, "little"), *chunks))


def head_bytes(content: bytes) -> int:
    """The size of the whole head, from its first HEAD_BYTES; raises DamagedError if they are not a head."""
    if len(content) < HEAD_BYTES or not content.startswith(_FILES_MAGIC):
        raise DamagedError("no list of files")
    _, _, _, chunks = _FILE_HEAD.unpack(content[:HEAD_BYTES])
    return HEAD_BYTES + 12 * chunks + 4


def head(content: bytes) -> Head:
    """Parses a whole head; raises DamagedError if `content` is not one."""
    _, files_id, entries, chunks = _FILE_HEAD.unpack(content[:HEAD_BYTES])
    is_whole = len(content) == HEAD_BYTES + 12 * chunks + 4
    if not is_whole or zlib.crc32(content[:-4]) != int.from_bytes(content[-4:], "little"):
        raise DamagedError("no head of a list of files")
    ends = np.frombuffer(content, "<u8", chunks, HEAD_BYTES).astype(np.int64)
    checksums = np.frombuffer(content, "<u4", chunks, HEAD_BYTES + 8 * chunks)
    offsets = len(content) + np.concatenate([[0], ends])
    return Head(files_id=files_id, entries=entries, offsets=offsets, checksums=checksums)


def folder(content: bytes, head: Head) -> Folder:
    """Reads chunk 0; raises DamagedError where that is not what was written."""
    return Folder(**_unpacked(content, head, 0))


def entries(content: bytes, head: Head, chunk: int) -> list[Entry]:
    """Reads the entries of a chunk; raises DamagedError where it is not what was written."""
    return [Entry(*fields) for fields in _unpacked(content, head, chunk)]


def check(content: bytes, head: Head, chunk: int) -> None:
    """Raises DamagedError where a chunk is not what was written."""
    if zlib.crc32(content) != head.checksums[chunk]:
        raise DamagedError("other bytes than were written")


def _grouped(entries: Sequence[Entry]) -> Iterator[list[Sequence[object]]]:
    for start in range(0, len(entries), _CHUNK):
        yield [entry if any(entry[1:]) else entry[:1] for entry in entries[start : start + _CHUNK]]


def _packed(document: object) -> bytes:
    # zlib took more bytes: up to 4.9 instead of 3.6 for a name that is a random number.
    return lzma.compress(json.dumps(document, separators=(",", ":")).encode())


def _unpacked(content: bytes, head: Head, chunk: int) -> object:
    check(content, head, chunk)
    return json.loads(lzma.decompress(content))


# --- The origins of one shard's rows, as a file: each takes as few bits as it needs, and is found without a
# search.
#
# A file of two parts, all numbers little-endian. First a header of 88 bytes:
#
# 18 bytes  the magic `penstock.origins/1` uint8     bits of a file's number, f, and uint8 bits of a row's
# number, r uint32    checksum (CRC-32) of the 84 bytes of the header that are no checksum uint64    the
# number of rows, and uint64 the lowest number of a file, which is added to each 16 bytes  the id of its list
# of files 32 bytes  SHA-256 of the shard
#
# Then chunks of 4,096 rows, the last one shorter: f + r bits a row, the lowest bit first, filled up to whole
# bytes; and uint32, their checksum. The low r bits of a row are its number in the file, 0 where the file is
# one row; the others number the file.

ROW_BITS = 32  # the low bits of 64 hold a row's number, the others the file's number
CHUNK_ROWS = 1 << 12
CHECKSUM_BYTES = 4

_ROWS_MAGIC = b"penstock.origins/1"
_ROWS_HEAD = struct.Struct("<18sBB")
_REST = struct.Struct("<QQ16s32s")
HEADER_BYTES = _ROWS_HEAD.size + CHECKSUM_BYTES + _REST.size


@dataclasses.dataclass(frozen=True, kw_only=True)
class Header:
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
        size = bits.packed_bytes(self.bits, CHUNK_ROWS) + CHECKSUM_BYTES
        return HEADER_BYTES + number * size, min(CHUNK_ROWS, self.rows - number * CHUNK_ROWS)

    def chunk_bytes(self, rows: int) -> int:
        """The size in bytes of a chunk of `rows` rows, with its checksum."""
        return bits.packed_bytes(self.bits, rows) + CHECKSUM_BYTES

    @property
    def chunks(self) -> int:
        return -(-self.rows // CHUNK_ROWS)

    @property
    def bytes(self) -> int:
        if not self.rows:
            return HEADER_BYTES
        offset, rows = self.chunk(self.chunks - 1)
        return offset + self.chunk_bytes(rows)


def pack_rows(places: np.ndarray, *, files_id: bytes, shard_sha256: str) -> Iterator[bytes]:
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
        content = bits.packed(numbers, header.bits)
        yield content + zlib.crc32(content).to_bytes(CHECKSUM_BYTES, "little")


def place(files: np.ndarray | int, rows: np.ndarray) -> np.ndarray:
    """Joins numbers of files and of rows, int64 [rows]: uint64 [rows]. A row's number that is too large
    becomes 0.
    """
    fits = (rows >= 0) & (rows < 1 << ROW_BITS)
    low = np.where(fits, rows, 0).astype(np.uint64)
    return np.asarray(files, np.uint64) << np.uint64(ROW_BITS) | low


def header(content: bytes) -> Header:
    """Parses the header that `content` begins with; raises DamagedError if there is none."""
    head, rest = content[: _ROWS_HEAD.size], content[_ROWS_HEAD.size + CHECKSUM_BYTES : HEADER_BYTES]
    checksum = int.from_bytes(content[_ROWS_HEAD.size : _ROWS_HEAD.size + CHECKSUM_BYTES], "little")
    if len(rest) < _REST.size or not head.startswith(_ROWS_MAGIC) or zlib.crc32(head + rest) != checksum:
        raise DamagedError("no header of origins")
    _, file_bits, row_bits = _ROWS_HEAD.unpack(head)
    rows, lowest_file, files_id, sha256 = _REST.unpack(rest)
    return Header(
        rows=rows,
        file_bits=file_bits,
        row_bits=row_bits,
        lowest_file=lowest_file,
        files_id=files_id,
        shard_sha256=sha256.hex(),
    )


def unpack_rows(content: bytes, header: Header, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Unpacks a chunk of `rows` rows: the number of each row's file, and its number in the file, int64 [rows]
    each.

    Raises DamagedError where its bytes do not fit the checksum.
    """
    packed_rows, checksum = content[:-CHECKSUM_BYTES], content[-CHECKSUM_BYTES:]
    is_whole = len(content) == header.chunk_bytes(rows)
    if not is_whole or zlib.crc32(packed_rows) != int.from_bytes(checksum, "little"):
        raise DamagedError("other bytes than were written")
    numbers = bits.unpacked(packed_rows, header.bits, rows)
    low = numbers & np.uint64((1 << header.row_bits) - 1)
    files = numbers >> np.uint64(header.row_bits)
    return files.astype(np.int64) + header.lowest_file, low.astype(np.int64)


def _dumps(header: Header) -> bytes:
    head = _ROWS_HEAD.pack(_ROWS_MAGIC, header.file_bits, header.row_bits)
    sha256 = bytes.fromhex(header.shard_sha256)
    rest = _REST.pack(header.rows, header.lowest_file, header.files_id, sha256)
    return head + zlib.crc32(head + rest).to_bytes(CHECKSUM_BYTES, "little") + rest


# --- The origin of a row: what a person needs to find it in the raw data.


class Origin(NamedTuple):
    """A raw file, and the row there, counted from 1; None where the file is one row, such as an image.

    In CSV, JSON Lines and text, `row` is the line on which the row begins; a header and blank lines count. In
    other formats it is the number of the row or record in the file. `file` is relative to the directory that
    all inputs are in; for a row of a service it names the stream.
    """

    file: str
    row: int | None

    def __str__(self) -> str:
        return self.file if self.row is None else f"{self.file} row {self.row:,}"
