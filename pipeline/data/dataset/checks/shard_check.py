"""Whether a shard and its index are those that were published, by what can be told without reading all."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.data import file_state, ordinary_files
from pipeline.data.dataset import index
from pipeline.data.dataset.index import Index, IndexFile
from pipeline.data.dataset.manifest import Dataset, Shard, published_in_turn
from pipeline.data.dataset.tfrecord import CRC_BYTES, FRAME_BYTES, HEADER_BYTES, is_sound
from pipeline.data.errors import InputError
from pipeline.data.file_state import FileState

_READ_AT_ONCE = 64 << 10  # 64 KiB: a smaller shard is read as a whole, not record by record
_HASHED = 8 << 10  # 8 KiB: the digest of a smaller one takes less time than those of three records
_COMPARED_TOGETHER = 1 << 16  # records: some MiB of copies

States = tuple[FileState, FileState]  # of a shard and of its index


class _Entry(NamedTuple):
    """What an index says of a record."""

    ordinal: int  # in the shard, from 0
    offset: int
    length: int
    content_hash: int


def checked_index(dataset: Dataset, shard: Shard) -> Index:
    """All of the index of a shard; raises InputError where it is another, or does not fit the shard.

    It is compared by its digest, the count, the places and the end of its records, and the content of a few.
    """
    return opened(dataset, [shard])[0][0]


def opened(dataset: Dataset, shards: Sequence[Shard]) -> tuple[list[Index], list[States]]:
    """The same of several shards, with the files as they were before they were read."""
    names = [index.file_name(shard.path) for shard in shards]
    read = published_in_turn(dataset.directory, dataset.manifest, names)
    found = [
        index.loads(content, dataset.path_of(name)) for (content, _), name in zip(read, names, strict=True)
    ]
    _check_places(dataset, shards, found)
    states = _check_contents(dataset, shards, [_samples(each) for each in found], is_published=True)
    return found, list(zip(states, (of_index for _, of_index in read), strict=True))


def _check_places(dataset: Dataset, shards: Sequence[Shard], found: Sequence[Index]) -> None:
    """Each record begins where the one before it ends, and the last one ends where the shard does.

    From anywhere else, TensorFlow would read what it finds.

    Small indexes are compared together: of 4 records, half of the time would go to calls of NumPy.
    """
    if len(found) > 1 and sum(map(len, found)) > _COMPARED_TOGETHER:
        for shard, each in zip(shards, found, strict=True):
            _check_places(dataset, [shard], [each])
        return
    counts = np.array([len(each) for each in found])
    after, has_some = np.cumsum(counts), counts > 0
    told = np.concatenate([each.offsets for each in found]).astype(np.int64)
    ends = told + np.concatenate([each.lengths for each in found]) + FRAME_BYTES
    expected = np.concatenate([[0], ends])[:-1]
    expected[(after - counts)[has_some]] = 0
    differ = np.flatnonzero(told != expected)
    if not len(differ):
        last_ends = np.zeros(len(found), np.int64)
        last_ends[has_some] = ends[after[has_some] - 1]
        for shard, records, end in zip(shards, counts.tolist(), last_ends.tolist(), strict=True):
            _check_end(dataset, shard, records, end)
        return
    of_all = int(differ[0])
    which = int(np.searchsorted(after, of_all, side="right"))
    record = of_all - int(counts[:which].sum())
    raise InputError(
        f"index {dataset.path_of(index.file_name(shards[which].path))}",
        received=f"byte {told[of_all]:,} as the start of record {record:,}",
        expected=f"byte {expected[of_all]:,}, where the record before it ends",
        action="Restore the file from a copy, or convert the raw data again.",
    )


def check_ends(dataset: Dataset, shard: Shard) -> States:
    """Raises InputError where an index does not fit its shard, as far as a few of its entries tell.

    It is not read as a whole, so its digest is not compared.
    """
    path = dataset.path_of(index.file_name(shard.path))
    of_index, found = file_state.of(path), IndexFile(path, shard.records)
    sample = [_entry(n, found.part(n, n + 1), 0) for n in _sampled(shard.records)]
    end = max((entry.offset + entry.length + FRAME_BYTES for entry in sample), default=0)
    _check_end(dataset, shard, shard.records, end)
    [state] = _check_contents(dataset, [shard], [sample], is_published=False)
    return state, of_index


def _sampled(records: int) -> list[int]:
    """The first, the middle and the last."""
    return sorted({0, (records - 1) // 2, records - 1}) if records else []


def _samples(found: Index) -> Iterator[_Entry]:
    """Those entries, made where they are asked for: of a small shard they mostly are not."""
    for ordinal in _sampled(len(found)):
        yield _entry(ordinal, found, ordinal)


def _entry(ordinal: int, found: Index, at: int) -> _Entry:
    return _Entry(ordinal, int(found.offsets[at]), int(found.lengths[at]), int(found.hashes[at]))


def _check_end(dataset: Dataset, shard: Shard, records: int, end: int) -> None:
    if (records, end) != (shard.records, shard.bytes):
        raise InputError(
            f"index {dataset.path_of(index.file_name(shard.path))}",
            received=f"{records:,} records that end at byte {end:,}",
            expected=f"{shard.records:,} that end at byte {shard.bytes:,}, as {shard.path} has them",
            action="Restore the file from a copy, or convert the raw data again.",
        )


def _check_contents(
    dataset: Dataset, shards: Sequence[Shard], sampled: Sequence[Iterable[_Entry]], *, is_published: bool
) -> list[FileState]:
    """Compares records with their hashes, which a shard that was swapped for another does not have.

    Args:
      sampled: of each shard, some entries of its index.
      is_published: the indexes are known to be those of the shards with the published digests.

    Returns: the shards as they were before they were read.
    """
    paths = [dataset.path_of(shard.path) for shard in shards]
    each = zip(paths, shards, sampled, ordinary_files.opened_ahead(paths), strict=True)
    return [
        _check_content(file, path, shard, sample, is_published=is_published)
        for path, shard, sample, file in each
    ]


def _check_content(
    descriptor: int, path: str, shard: Shard, sample: Iterable[_Entry], *, is_published: bool
) -> FileState:
    state = file_state.told(ordinary_files.checked(descriptor, path))
    is_small = shard.bytes <= _READ_AT_ONCE
    whole = ordinary_files.read_at(descriptor, path, shard.bytes, 0) if is_small else b""
    is_whole = len(whole) == shard.bytes
    is_hashed = is_published and is_whole and len(whole) <= _HASHED
    if is_hashed and hashlib.sha256(whole).hexdigest() == shard.sha256:
        return state
    for entry in sample:
        begin, size = entry.offset + HEADER_BYTES, entry.length + CRC_BYTES
        stored = (
            whole[begin : begin + size] if is_whole else ordinary_files.read_at(descriptor, path, size, begin)
        )
        payload, checksum = stored[:-CRC_BYTES], stored[-CRC_BYTES:]
        # One that is damaged, not swapped, is reported when it is read.
        if is_sound(payload, checksum) and index.content_hash(payload) != entry.content_hash:
            raise InputError(
                f"dataset file {path}",
                received=f"a record {entry.ordinal:,} that is sound, but not the one that was published",
                expected=f"the shard with SHA-256 {shard.sha256[:12]}…",
                action="It was modified or swapped: restore it from a copy, or convert the data again.",
            )
    return state
