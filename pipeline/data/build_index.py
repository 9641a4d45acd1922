"""Builds the index of a TFRecord file that has none, reading it to its last byte.

Standard library and numpy only.
"""

import itertools
import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from pipeline.data import index
from pipeline.data.errors import InputError
from pipeline.data.framing import FRAME_BYTES, HEADER_BYTES, header
from pipeline.data.index import Index
from pipeline.data.records import Damage, Record, read_records

LISTED = 10  # damaged places that are named
GZIP = b"\x1f\x8b"
_RECORDS_AT_ONCE = 1 << 10


def build(path: pathlib.Path, *, on_bytes: Callable[[int], object] = lambda count: None) -> Index:
    """The index of all records of the file, each of which has the right checksums.

    Args:
      on_bytes: is told how many bytes were read, now and then.

    Raises:
      InputError: there is no such file, it is no uncompressed TFRecord file, or something in it is damaged,
        all of which is then named by ordinal and offset.
    """
    offsets, lengths, hashes, damaged = [], [], [np.zeros(0, np.uint64)], []
    try:
        with path.open("rb") as file:
            _check_start(path, file.read(HEADER_BYTES))
            file.seek(0)
            found = read_records(file, path.stat().st_size)
            while chunk := list(itertools.islice(found, _RECORDS_AT_ONCE)):
                damaged += [item for item in chunk if isinstance(item, Damage)]
                records = [item for item in chunk if isinstance(item, Record)]
                offsets += [record.offset for record in records]
                lengths += [len(record.payload) for record in records]
                hashes.append(index.content_hashes(record.payload for record in records))
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
    if not start or start == header(int.from_bytes(start[:8], "little")):
        return
    if start.startswith(GZIP):
        raise InputError(
            f"file {path}",
            received="a gzip file",
            expected="an uncompressed TFRecord file: in a compressed one no record can be found by its place",
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


def _damaged(path: pathlib.Path, damaged: Sequence[Damage]) -> InputError:
    places = [f"record {one.ordinal:,} at byte {one.offset:,}: {one.reason}" for one in damaged[:LISTED]]
    more = [f"and {len(damaged) - LISTED:,} more"] if len(damaged) > LISTED else []
    return InputError(
        f"file {path}",
        received="; ".join([*places, *more]),
        expected="TFRecords with the right checksums",
        action="Restore the file from a copy; `python -m beam_jobs.convert` keeps the sound records of one "
        "whose payloads are damaged.",
    )
