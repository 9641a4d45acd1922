"""Compares every record of a selection with its checksums and with its hash in the index.

So damaged and modified records are found and located. Standard library and numpy only.
"""

import collections
import concurrent.futures
import dataclasses
import functools
import hashlib
import itertools
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO

from pipeline.base import documents
from pipeline.base import files as files_lib
from pipeline.base.files import FileState
from pipeline.base.progress import Bar
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset import shards as shards_lib
from pipeline.data.dataset import tfrecord
from pipeline.data.dataset.row_hashes import content_hashes
from pipeline.data.dataset.selection import Selection
from pipeline.data.dataset.shards import Stored

_READ_BYTES = 8 << 20  # 8 MiB
_RECORDS_AT_ONCE = 1 << 16  # records whose index entries are held at once
_FILES_AT_ONCE = 4  # reads overlap; checksums do not, because they hold Python's lock


@dataclasses.dataclass(frozen=True, kw_only=True)
class DamagedRecord:
    """A record whose bytes are not those that were written."""

    dataset: str  # digest of the dataset's manifest
    file: str  # path relative to the dataset
    ordinal: int  # number in the file, from 0
    offset: int  # byte of the file at which its frame starts
    rows: int  # how many rows it holds
    reason: str
    # Where several datasets are read as one: the dataset's directory, relative to their common one.
    span: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """The identity of the record, whatever is wrong with it, and wherever its dataset lies now."""
        return self.dataset, self.file, self.ordinal

    def __str__(self) -> str:
        file = pathlib.PurePath(self.span, self.file)
        return f"{file}, record {self.ordinal:,} at byte {self.offset:,}: {self.reason}"


def damaged_records(selection: Selection) -> tuple[DamagedRecord, ...]:
    """Every damaged record that holds selected rows, in stored order; reads all records once.

    Raises InputError where an index is not the one that was published.
    """
    check, of_shards = functools.partial(_read_again_if_it_fails, selection), _by_shard(selection)
    with concurrent.futures.ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        found = pool.map(check, of_shards, of_shards.values())
        shown = Bar(found, total=len(of_shards), desc="checking", unit="shard")
        return tuple(itertools.chain.from_iterable(shown))


def _by_shard(selection: Selection) -> Mapping[int, list[tuple[int, int]]]:
    """The ranges of records with selected rows, by shard; records are numbered over all shards."""
    shards, found = selection.shards, collections.defaultdict(list)
    for first, last in selection.record_ranges:
        for shard in range(shards.shard_of_record(first), shards.shard_of_record(last - 1) + 1):
            start, end = map(int, shards.record_starts[shard : shard + 2])
            found[shard].append((max(first, start), min(last, end)))
    return found


def _read_again_if_it_fails(
    selection: Selection, shard: int, ranges: Sequence[tuple[int, int]]
) -> list[DamagedRecord]:
    """Tries `_damaged_in` several times; raises TryAgainError where the shard cannot be read."""
    try:
        return files_lib.retry(lambda: _damaged_in(selection, shard, ranges))
    except OSError as error:
        raise files_lib.unreadable(selection.shards.paths[shard], error) from None


def _damaged_in(selection: Selection, shard: int, ranges: Sequence[tuple[int, int]]) -> list[DamagedRecord]:
    shards = selection.shards
    if shards.offsets is None:  # nobody has read the whole index yet
        dataset = selection.dataset
        manifest_lib.check_digest(
            dataset.directory, dataset.manifest, shards_lib.file_name(shards.names[shard])
        )
    with pathlib.Path(shards.paths[shard]).open("rb", buffering=_READ_BYTES) as file:
        return [
            damaged_record(selection, shard, number, reason)
            for first, last in ranges
            for start in range(first, last, _RECORDS_AT_ONCE)
            for number, reason in _damaged_of(
                file, shards.stored(shard, start, min(start + _RECORDS_AT_ONCE, last))
            )
        ]


def _damaged_of(file: BinaryIO, stored: Stored) -> Iterator[tuple[int, str]]:
    """Yields (number, reason) for each of these records of the file that is damaged."""
    columns = (stored.offsets.tolist(), stored.sizes.tolist(), stored.hashes.tolist())
    for number, offset, size, content_hash in zip(stored.numbers, *columns, strict=True):
        file.seek(offset)
        if reason := checksum_problem(file.read(size), size=size, content_hash=content_hash):
            yield number, reason


def checksum_problem(frame: bytes, *, size: int, content_hash: int) -> str:
    """The problem of a frame of this size and content hash; empty if it has none."""
    length = size - tfrecord.FRAME_BYTES
    if found := tfrecord.problem(frame, length=length):
        return found
    payload = frame[tfrecord.HEADER_BYTES : -tfrecord.CRC_BYTES]
    if content_hashes([payload])[0] != content_hash:
        return f"its {length:,} bytes are sound, but not those that were published"
    return ""


def stored_frame(selection: Selection, shard: int, number: int) -> tuple[bytes, str]:
    """The frame of record `number`, counted over all shards, and its damage; empty if it has none."""
    shards = selection.shards
    stored = shards.stored(shard, number, number + 1)
    offset, size, content_hash = int(stored.offsets[0]), int(stored.sizes[0]), int(stored.hashes[0])
    with pathlib.Path(shards.paths[shard]).open("rb") as file:
        file.seek(offset)
        frame = file.read(size)
    return frame, checksum_problem(frame, size=size, content_hash=content_hash)


def damaged_record(selection: Selection, shard: int, number: int, reason: str) -> DamagedRecord:
    """The record of this number over all shards, and what is wrong with it."""
    shards = selection.shards
    first, last = shards.rows_of_record(number)
    dataset, file = selection.dataset.owner(shards.names[shard])
    return DamagedRecord(
        dataset=dataset.manifest.digest,
        file=file,
        ordinal=number - int(shards.record_starts[shard]),
        offset=int(shards.stored(shard, number, number + 1).offsets[0]),
        rows=last - first,
        reason=reason,
        span=selection.dataset.span(dataset),
    )


# --- Remembers damage: files that stay as they are need not be read again.

FORMAT = "penstock.scan/1"  # changes when something else is compared


class ScanMemory:
    """The damage of selections, kept in a file.

    Args:
      path: path of that file; None: nothing is kept. If the file is absent or damaged, it only costs time.
      clock: nanoseconds since 1970.
    """

    def __init__(self, path: pathlib.Path | None, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._path, self._clock = path, clock
        self._known = _loaded(path) if path else {}
        self._used: dict[str, tuple[DamagedRecord, ...]] = {}

    def damaged(self, selection: Selection) -> tuple[DamagedRecord, ...]:
        """Returns what `damaged_records` gives, but reads nothing if the same files were compared before."""
        if not self._path:
            return damaged_records(selection)
        key, is_settled = self._key(selection)
        if key in self._known:
            self._used[key] = self._known[key]
            return self._known[key]
        found = damaged_records(selection)
        if is_settled and self._key(selection)[0] == key:
            self._used[key] = found
        return found

    def save(self) -> None:
        if self._path and self._used and self._used != self._known:
            damaged = {key: [vars(one) for one in found] for key, found in self._used.items()}
            document = {"format": FORMAT, "damaged": damaged}
            documents.write(self._path, document)

    def _key(self, selection: Selection) -> tuple[str, bool]:
        """A hash of everything that the result depends on (rows, digests, files), and whether a later change
        would show.
        """
        dataset, shards, now = selection.dataset, selection.shards, self._clock()
        digest = hashlib.sha256(repr((dataset.manifest.digest, selection.record_ranges)).encode())
        files = [file for path in shards.paths for file in (path, shards_lib.file_name(path))]
        is_settled = True
        for states in files_lib.in_turns(_states, files):
            is_settled = is_settled and all(state.is_settled(now) for _, state in states)
            digest.update("".join(repr((file, tuple(state))) for file, state in states).encode())
        return digest.hexdigest(), is_settled


def _states(files: Sequence[str]) -> list[tuple[str, FileState]]:
    return [(file, files_lib.file_state(file)) for file in files]


def _loaded(path: pathlib.Path) -> Mapping[str, tuple[DamagedRecord, ...]]:
    try:
        of_keys = documents.read(path, file_format=FORMAT)["damaged"]
        return {key: tuple(DamagedRecord(**one) for one in found) for key, found in of_keys.items()}
    except documents.UNREADABLE:
        return {}
