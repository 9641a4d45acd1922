"""The index of a shard: where each of its records starts, how long it is, and a hash of its content.

A file beside the shard, all numbers little-endian:

  bytes 0…15     the magic `penstock.index/1`
  bytes 16…23    uint64, the number n of records
  then           uint64 [n] offsets: byte of the shard at which each record's TFRecord frame starts
  then           uint64 [n] hashes: 8-byte BLAKE2b of each payload
  then           uint32 [n] lengths: bytes of each payload, which starts 12 bytes after its frame

Standard library and numpy only.
"""

import dataclasses
import hashlib
import os
import re
from collections.abc import Iterable

import numpy as np

from pipeline.data import ordinary_files
from pipeline.data.errors import InputError

_MAGIC = b"penstock.index/1"
_HEAD_BYTES = len(_MAGIC) + 8
_HASH_BYTES = 8
_RECORD_BYTES = 8 + _HASH_BYTES + 4
_TFRECORD = re.compile(r"\.tfrecords?(?=(-\d+-of-\d+)?$)")  # in the name of a shard


@dataclasses.dataclass(frozen=True, kw_only=True)
class Index:
    """Offsets uint64 [n], lengths uint32 [n] and hashes uint64 [n] of n records, in stored order."""

    offsets: np.ndarray
    lengths: np.ndarray
    hashes: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets)


def file_name(shard: str) -> str:
    """Name of the index of the shard that is called `shard`.

    `x-train.tfrecord-00000-of-00008` gives `x-train-00000-of-00008.index`, and `part-1.tfrecord` gives
    `part-1.index`: neither TFDS nor a glob for `*.tfrecord*` takes these for shards. `.index` is appended to
    any other name.
    """
    return _TFRECORD.sub("", shard) + ".index"


def content_hashes(payloads: Iterable[bytes]) -> np.ndarray:
    """Hashes of n payloads, uint64 [n]: equal for equal content."""
    digests = [hashlib.blake2b(payload, digest_size=_HASH_BYTES).digest() for payload in payloads]
    return np.frombuffer(b"".join(digests), "<u8")


def content_hash(payload: bytes) -> int:
    """That of one."""
    return int.from_bytes(hashlib.blake2b(payload, digest_size=_HASH_BYTES).digest(), "little")


def size_of(records: int) -> int:
    """Bytes of the index of so many records."""
    return _HEAD_BYTES + records * _RECORD_BYTES


def offset_at(ordinal: int) -> int:
    """Where the offset of a record stands in the index, in bytes; that of the next record follows it."""
    return _HEAD_BYTES + 8 * ordinal


def dumps(index: Index) -> bytes:
    """The file's content."""
    columns = ((index.offsets, "<u8"), (index.hashes, "<u8"), (index.lengths, "<u4"))
    # Not copied before they are joined: of very small records an index is hundreds of megabytes.
    arrays = (np.ascontiguousarray(column, dtype) for column, dtype in columns)
    return b"".join((_MAGIC, len(index).to_bytes(8, "little"), *arrays))


def load(path: str | os.PathLike) -> Index:
    """Reads an index; raises InputError if the file is none, or is cut short."""
    return loads(ordinary_files.read_bytes(path), path)


def loads(content: bytes, path: str | os.PathLike) -> Index:
    """The inverse of `dumps`; `path` names the file in the InputError."""
    records = int.from_bytes(content[len(_MAGIC) : _HEAD_BYTES], "little")
    if not content.startswith(_MAGIC) or len(content) != size_of(records):
        raise _is_none(path, len(content), content[: len(_MAGIC)], records)
    offsets, hashes, lengths = _columns(records)
    return Index(
        offsets=np.frombuffer(content, "<u8", records, offsets),
        hashes=np.frombuffer(content, "<u8", records, hashes),
        lengths=np.frombuffer(content, "<u4", records, lengths),
    )


@dataclasses.dataclass(frozen=True)
class IndexFile:
    """An index of which parts are read, and nothing is held: that of a billion records has 20 GB."""

    path: str
    records: int

    def part(self, first: int, last: int) -> Index:
        """Of the records [first, last); raises InputError if the file is no index of so many records."""
        count = last - first
        with ordinary_files.opened(self.path) as file:
            # Not through a buffer: that of a network disk may have MiB.
            head, size = os.pread(file.fileno(), _HEAD_BYTES, 0), os.fstat(file.fileno()).st_size
            if head != _MAGIC + self.records.to_bytes(8, "little") or size != size_of(self.records):
                raise _is_none(self.path, size, head[: len(_MAGIC)], self.records)
            offsets, hashes, lengths = _columns(self.records)
            return Index(
                offsets=_read(file.fileno(), "<u8", count, offsets + 8 * first),
                hashes=_read(file.fileno(), "<u8", count, hashes + 8 * first),
                lengths=_read(file.fileno(), "<u4", count, lengths + 4 * first),
            )


def _columns(records: int) -> tuple[int, int, int]:
    """Where offsets, hashes and lengths begin, in bytes."""
    return _HEAD_BYTES, _HEAD_BYTES + 8 * records, _HEAD_BYTES + 16 * records


def _read(descriptor: int, dtype: str, count: int, start: int) -> np.ndarray:
    return np.frombuffer(os.pread(descriptor, count * np.dtype(dtype).itemsize, start), dtype, count)


def _is_none(path: str | os.PathLike, size: int, start: bytes, records: int) -> InputError:
    return InputError(
        f"index {path}",
        received=f"{size:,} bytes that start with {start!r}",
        expected=f"{_MAGIC!r} and {size_of(records):,} bytes",
        action="Restore the file from a copy, or convert the raw data again.",
    )
