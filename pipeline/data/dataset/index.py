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
import pathlib
import re
from collections.abc import Iterable

import numpy as np

from pipeline.data.errors import InputError

_MAGIC = b"penstock.index/1"
_HEAD_BYTES = len(_MAGIC) + 8
_RECORD_BYTES = 8 + 8 + 4
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
    digests = [hashlib.blake2b(payload, digest_size=8).digest() for payload in payloads]
    return np.frombuffer(b"".join(digests), "<u8")


def dumps(index: Index) -> bytes:
    """The file's content."""
    columns = ((index.offsets, "<u8"), (index.hashes, "<u8"), (index.lengths, "<u4"))
    # Not copied before they are joined: of very small records an index is hundreds of megabytes.
    arrays = (np.ascontiguousarray(column, dtype) for column, dtype in columns)
    return b"".join((_MAGIC, len(index).to_bytes(8, "little"), *arrays))


def load(path: str | os.PathLike) -> Index:
    """Reads an index; raises InputError if the file is none, or is cut short."""
    return loads(pathlib.Path(path).read_bytes(), path)


def loads(content: bytes, path: str | os.PathLike) -> Index:
    """The inverse of `dumps`; `path` names the file in the InputError."""
    records = int.from_bytes(content[len(_MAGIC) : _HEAD_BYTES], "little")
    size = _HEAD_BYTES + records * _RECORD_BYTES
    if not content.startswith(_MAGIC) or len(content) != size:
        raise InputError(
            f"index {path}",
            received=f"{len(content):,} bytes that start with {content[: len(_MAGIC)]!r}",
            expected=f"{_MAGIC!r} and {size:,} bytes",
            action="Restore the file from a copy, or convert the raw data again.",
        )
    after_offsets, after_hashes = _HEAD_BYTES + 8 * records, _HEAD_BYTES + 16 * records
    return Index(
        offsets=np.frombuffer(content, "<u8", records, _HEAD_BYTES),
        hashes=np.frombuffer(content, "<u8", records, after_offsets),
        lengths=np.frombuffer(content, "<u4", records, after_hashes),
    )
