"""TFRecord files that others wrote, as a dataset: they need no manifest, only indexes by `pipeline.index`.

Standard library and numpy only.
"""

import hashlib
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.data.dataset import shards
from pipeline.data.dataset.manifest import TRAIN, Dataset, File, Manifest, Shard
from pipeline.data.dataset.row_hashes import content_hashes
from pipeline.data.dataset.shards import Index
from pipeline.data.dataset.tfrecord import (
    FRAME_BYTES,
    HEADER_BYTES,
    DamagedFrame,
    Record,
    payload_bytes,
    read_records,
)
from pipeline.data.schema.schema import Schema


def open_files(paths: Iterable[str | os.PathLike], schema: Schema, *, split: str = TRAIN) -> Dataset:
    """The records of these files, in this order, as one split of a dataset.

    Its manifest is made here, from the indexes as they are now.

    Args:
      schema: what to parse; the records must hold each feature under its name, with its type.

    Raises:
      InputError: there are no files, or a file or its index is missing or unreadable.
    """
    absolute = [pathlib.Path(path).absolute() for path in paths]
    if not absolute:
        raise InputError(
            "TFRecord files", received="none", expected="at least one", action="Correct the pattern."
        )
    files = [_with_index(path) for path in absolute]
    shards = tuple(shard for shard, _ in files)
    rows = sum(shard.rows for shard in shards)
    made_up = Manifest(
        name=schema.name,
        version="0.0.0",
        layout="rows",
        schema_fingerprint=schema.fingerprint,
        plan_fingerprint="",
        rows_read=rows,
        rows_rejected=0,
        splits={split: shards},
        files=tuple(file for _, file in files),
    )
    return Dataset(directory=absolute[0].parent, manifest=made_up, schema=schema)


def _with_index(path: pathlib.Path) -> tuple[Shard, File]:
    """The file and its index, both with the digest of the index, which holds a hash of every record."""
    name = shards.file_name(str(path))
    content = _read_index(path, name)
    digest, index, size = (
        hashlib.sha256(content).hexdigest(),
        shards.loads(content, name),
        path.stat().st_size,
    )
    if index.end != size:
        raise InputError(
            f"index {name}",
            received=f"{len(index):,} records that end at byte {index.end:,}",
            expected=f"records to the end of {path.name}, byte {size:,}",
            action="The file was modified since. If this was intended, delete the index and run again.",
        )
    shard = Shard(path=str(path), bytes=size, sha256=digest, records=len(index), rows=len(index))
    return shard, File(path=name, bytes=len(content), sha256=digest)


def _read_index(path: pathlib.Path, name: str) -> bytes:
    try:
        path.stat()
        return files.read_bytes(name)
    except FileNotFoundError as error:
        raise InputError(
            f"file {error.filename}",
            received="no such file",
            expected="a TFRecord file and its index beside it",
            action="Correct the path, or run `python -m pipeline.index` on the file.",
        ) from None


# --- Makes the index of a TFRecord file that has none, and reads the whole file for it.

_LISTED = 10  # damaged records that an error names
_GZIP = b"\x1f\x8b"
_RECORDS_AT_ONCE = 1 << 10


def build(path: pathlib.Path, *, on_bytes: Callable[[int], object] = lambda count: None) -> Index:
    """The index of the file, all of whose records have the right checksums.

    Args:
      on_bytes: called from time to time, with the number of bytes read since the last call.

    Raises:
      InputError: there is no such file, it is not an uncompressed TFRecord file, or records are damaged; the
        error names their ordinals and offsets.
    """
    offsets, lengths, hashes, damaged = [], [], [np.zeros(0, np.uint64)], []
    try:
        with path.open("rb") as file:
            _check_start(path, file.read(HEADER_BYTES))
            file.seek(0)
            found = read_records(file, path.stat().st_size)
            while chunk := list(itertools.islice(found, _RECORDS_AT_ONCE)):
                damaged += [item for item in chunk if isinstance(item, DamagedFrame)]
                records = [item for item in chunk if isinstance(item, Record)]
                offsets += [record.offset for record in records]
                lengths += [len(record.payload) for record in records]
                hashes.append(content_hashes(record.payload for record in records))
                on_bytes(sum(len(record.payload) + FRAME_BYTES for record in records))
    except OSError as error:
        raise _unreadable(path, error) from None
    if damaged:
        raise _damaged(path, damaged)
    return Index(
        offsets=np.array(offsets, np.uint64),
        lengths=np.array(lengths, np.uint32),
        hashes=np.concatenate(hashes),
    )


def _check_start(path: pathlib.Path, start: bytes) -> None:
    if not start or payload_bytes(start) is not None:
        return
    if start.startswith(_GZIP):
        raise InputError(
            f"file {path}",
            received="a gzip file",
            expected="an uncompressed TFRecord file: in a compressed one no record is found by its offset",
            action=f"Run `gzip -dc {path} > NAME.tfrecord` and index that, or convert it with "
            "`python -m beam_jobs.convert --format=tfrecord`.",
        )


def _unreadable(path: pathlib.Path, error: OSError) -> InputError:
    return InputError(
        f"file {path}",
        received=error.strerror or str(error),
        expected="a TFRecord file",
        action="Correct the path.",
    )


def _damaged(path: pathlib.Path, damaged: Sequence[DamagedFrame]) -> InputError:
    named = [f"record {one.ordinal:,} at byte {one.offset:,}: {one.reason}" for one in damaged[:_LISTED]]
    more = [f"and {len(damaged) - _LISTED:,} more"] if len(damaged) > _LISTED else []
    return InputError(
        f"file {path}",
        received="; ".join([*named, *more]),
        expected="TFRecords with the right checksums",
        action="Restore the file from a copy; `python -m beam_jobs.convert` keeps the sound records of one "
        "whose payloads are damaged.",
    )
