"""One shard as it is written: the TFRecord file, its digest, and its index."""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow.compute as pc
from apache_beam.io.filesystems import FileSystems

from beam_jobs.records.examples import Bytes
from pipeline.data.dataset import index as index_lib
from pipeline.data.dataset.index import Index
from pipeline.data.dataset.tfrecord import FRAME_BYTES, frame

_BYTES_AT_ONCE = (
    1 << 18
)  # 256 KiB: framed, hashed and written while they are in the processor's nearest cache


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardDigest:
    """What is known of a shard once it is written."""

    records: int
    bytes: int
    sha256: str


class ShardFile:
    """A shard that grows by batches of records. None stays in memory; leaving the context closes the file."""

    def __init__(self, path: str, *, index_path: str) -> None:
        self._file = FileSystems.create(path, compression_type="uncompressed")
        self._index_path = index_path
        self._digest = hashlib.sha256()
        self._bytes = 0
        self._lengths: list[np.ndarray] = [np.zeros(0, np.uint32)]
        self._hashes: list[np.ndarray] = [np.zeros(0, np.uint64)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, records: Bytes) -> None:
        """Appends `records` [n]."""
        for part in _parts(records):
            self._add(part.to_pylist())

    def _add(self, payloads: Sequence[bytes]) -> None:
        framed = frame(payloads)
        self._file.write(framed)
        self._digest.update(framed)
        self._bytes += len(framed)
        self._lengths.append(np.fromiter(map(len, payloads), np.uint32, len(payloads)))
        self._hashes.append(index_lib.content_hashes(payloads))

    def finish(self) -> ShardDigest:
        """Writes the index; call it once, after the last record."""
        # One at a time, and in place: of many small records these are most of what is held.
        lengths = np.concatenate(self._lengths)
        del self._lengths
        hashes = np.concatenate(self._hashes)
        del self._hashes
        starts = np.arange(0, len(lengths) * FRAME_BYTES, FRAME_BYTES, dtype=np.uint64)
        starts[1:] += np.cumsum(lengths[:-1], dtype=np.uint64)
        index = Index(offsets=starts, lengths=lengths, hashes=hashes)
        with FileSystems.create(self._index_path, compression_type="uncompressed") as file:
            file.write(index_lib.dumps(index))
        return ShardDigest(records=len(lengths), bytes=self._bytes, sha256=self._digest.hexdigest())


def _parts(records: Bytes) -> Iterator[Bytes]:
    """`records` in slices of about `_BYTES_AT_ONCE`."""
    lengths = pc.binary_length(records).to_numpy()
    number = np.cumsum(lengths) // _BYTES_AT_ONCE  # of the slice that each record is in
    ends = np.flatnonzero(np.diff(number, append=-1)) + 1
    for start, end in itertools.pairwise([0, *ends.tolist()]):
        yield records.slice(start, end - start)
