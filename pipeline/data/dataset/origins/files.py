"""The raw files of a dataset, as a file: found by number, in chunks that are read one at a time.

All numbers are little-endian:

  24 bytes  the magic `penstock.origin-files/2`, and a byte 0
  16 bytes  what this list is called by the origins of the shards
  uint64    the number n of entries, and uint64 the number c of chunks
  uint64    [c] the offset at which each chunk ends, from the end of this head
  uint32    [c] the checksum (CRC-32) of each chunk
  uint32    the checksum of all before it

Then the chunks, JSON that LZMA has compressed: first an object with the directory that all names start from,
`root`, and what ends a line, `line_ends`; then lists of 1,024 entries, each a list of the fields of `Entry`
without those at its end that have their defaults. A file that was read in parts has an entry a part.

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

from pipeline.data.dataset.origins.rows import DamagedError

_MAGIC = b"penstock.origin-files/2\0"
_HEAD = struct.Struct("<24s16sQQ")
_CHUNK = 1 << 10
ID_BYTES = 16
HEAD_BYTES = _HEAD.size


LINE_FEED, ANY_LINE_END = "\n", "any"  # as `line_ends`; "any": also \r\n, and \r alone


class Entry(NamedTuple):
    """A raw file, or a part of one. The last two are of files of lines only, whose rows can be read again."""

    name: str
    rows_before: int = 0  # is added to the numbers of rows, which were counted from the start of the part
    start: int = 0  # byte of the file at which the part starts
    file_bytes: int = 0  # of the whole file, when it was converted


class Folder(NamedTuple):
    """What all files have in common."""

    root: str  # directory that their names are relative to
    line_ends: str = ""  # LINE_FEED or ANY_LINE_END; empty: their rows are not numbered by lines


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
    """What a list of files is called by the origins that use it: a digest of `names`, in order."""
    digest = hashlib.blake2b(digest_size=ID_BYTES)
    for name in names:
        encoded = name.encode("utf-8", "surrogateescape")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()


def dumps(entries: Sequence[Entry], *, folder: Folder, files_id: bytes) -> bytes:
    """The content of the file."""
    chunks = [_packed(folder._asdict()), *map(_packed, _grouped(entries))]
    ends = np.cumsum(list(map(len, chunks)), dtype="<u8")
    checksums = np.array(list(map(zlib.crc32, chunks)), "<u4")
    head = _HEAD.pack(_MAGIC, files_id, len(entries), len(chunks)) + ends.tobytes() + checksums.tobytes()
    return b"".join((head, zlib.crc32(head).to_bytes(4, "little"), *chunks))


def head_bytes(content: bytes) -> int:
    """Of the whole head, from its first HEAD_BYTES; raises DamagedError if they are none."""
    if len(content) < HEAD_BYTES or not content.startswith(_MAGIC):
        raise DamagedError("no list of files")
    _, _, _, chunks = _HEAD.unpack(content[:HEAD_BYTES])
    return HEAD_BYTES + 12 * chunks + 4


def head(content: bytes) -> Head:
    """Raises DamagedError unless `content` is a whole head."""
    _, files_id, entries, chunks = _HEAD.unpack(content[:HEAD_BYTES])
    whole, checksum = content[:-4], content[-4:]
    if len(content) != HEAD_BYTES + 12 * chunks + 4 or zlib.crc32(whole) != int.from_bytes(
        checksum, "little"
    ):
        raise DamagedError("no head of a list of files")
    ends = np.frombuffer(content, "<u8", chunks, HEAD_BYTES).astype(np.int64)
    checksums = np.frombuffer(content, "<u4", chunks, HEAD_BYTES + 8 * chunks)
    offsets = len(content) + np.concatenate([[0], ends])
    return Head(files_id=files_id, entries=entries, offsets=offsets, checksums=checksums)


def folder(content: bytes, head: Head) -> Folder:
    """From chunk 0; raises DamagedError where that is not what was written."""
    return Folder(**_unpacked(content, head, 0))


def entries(content: bytes, head: Head, chunk: int) -> list[Entry]:
    """Those of a chunk; raises DamagedError where it is not what was written."""
    return [Entry(*fields) for fields in _unpacked(content, head, chunk)]


def check(content: bytes, head: Head, chunk: int) -> None:
    """Raises DamagedError where a chunk is not what was written."""
    if zlib.crc32(content) != head.checksums[chunk]:
        raise DamagedError("other bytes than were written")


def _grouped(entries: Sequence[Entry]) -> Iterator[list[Sequence[object]]]:
    for start in range(0, len(entries), _CHUNK):
        yield [entry if any(entry[1:]) else entry[:1] for entry in entries[start : start + _CHUNK]]


def _packed(document: object) -> bytes:
    # zlib took up to twice the bytes: 4.9 in place of 3.6 a name that is a random number.
    return lzma.compress(json.dumps(document, separators=(",", ":")).encode())


def _unpacked(content: bytes, head: Head, chunk: int) -> object:
    check(content, head, chunk)
    return json.loads(lzma.decompress(content))
