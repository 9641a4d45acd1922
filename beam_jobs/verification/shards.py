"""Reads one shard to its last byte: every record's checksum, schema and content hash, and the index."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from beam_jobs.verification.files import Problem, file_problems
from beam_jobs.verification.record_rows import Layout
from pipeline.data.dataset import index
from pipeline.data.dataset.manifest import Shard
from pipeline.data.dataset.tfrecord import DamagedFrame, Record, read_records
from pipeline.data.errors import InputError
from pipeline.data.schema.schema import Schema

LISTED_LIMIT = 1000  # problems of a shard that are kept one by one
_RECORDS_AT_ONCE = 1 << 10
_BYTES_AT_ONCE = 16 << 20  # 16 MiB

# One sound record: its number, offset and bytes, and the hash of its payload.
RECORD = np.dtype([("ordinal", "<i8"), ("offset", "<u8"), ("length", "<u4"), ("content", "<u8")])
# One row: its record, its number there, and the hashes of its content and its id (0 where there is none).
ROW = np.dtype([("record", "<i8"), ("row", "<i4"), ("content", "<u8"), ("id", "<u8")])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadShard:
    """`records` is RECORD [sound records], `rows` ROW [their rows], in stored order."""

    path: str
    records: np.ndarray
    rows: np.ndarray
    problems: tuple[Problem, ...]  # the first `LISTED_LIMIT`
    problem_count: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """How shards are read: what records must conform to, and what is called with the bytes read."""

    schema: Schema
    layout: Layout
    id_features: tuple[str, ...]  # features that together identify a row; empty: records hold no id
    on_bytes: Callable[[int], object] = lambda count: None


def read_shard(directory: pathlib.Path, shard: Shard, reading: Reading) -> ReadShard:
    """Reads on behind damage, so that everything that is wrong is found at once."""
    found = list(file_problems(directory, shard))
    record_chunks, row_chunks = [np.zeros(0, RECORD)], [np.zeros(0, ROW)]
    path = directory / shard.path
    if path.is_file():
        with path.open("rb") as file:
            for chunk in _chunks(read_records(file, path.stat().st_size)):
                records = [item for item in chunk if isinstance(item, Record)]
                found += _problems(shard, chunk, records, reading)
                record_chunks.append(_hashed(records))
                row_chunks.append(_hashed_rows(records, reading))
                reading.on_bytes(sum(len(record.payload) for record in records))
    records, rows = np.concatenate(record_chunks), np.concatenate(row_chunks)
    for what, sound, published in (("records", records, shard.records), ("rows", rows, shard.rows)):
        if len(sound) != published:
            problem = f"{len(sound):,} sound {what} in place of {published:,}"
            found.append(Problem(file=shard.path, problem=problem))
    return ReadShard(
        path=shard.path,
        records=records,
        rows=rows,
        problems=tuple(found[:LISTED_LIMIT]),
        problem_count=len(found),
    )


def index_problems(directory: pathlib.Path, published: Shard, shard: ReadShard) -> Iterator[Problem]:
    """Where the index does not say where each sound record is, or has another hash of it."""
    name = index.file_name(shard.path)
    try:
        stored = index.load(directory / name)
    except (InputError, OSError) as error:
        yield Problem(file=name, problem=f"unreadable: {error}")
        return
    if len(stored) != published.records:
        problem = f"tells of {len(stored):,} records in place of {published.records:,}"
        yield Problem(file=name, problem=problem)
    records = shard.records[shard.records["ordinal"] < len(stored)]
    told = records["ordinal"]
    wrong = stored.offsets[told] != records["offset"]
    wrong |= stored.lengths[told] != records["length"]
    wrong |= stored.hashes[told] != records["content"]
    for record in records[wrong][:LISTED_LIMIT]:
        ordinal, offset = int(record["ordinal"]), int(record["offset"])
        yield Problem(file=name, problem="does not tell what the shard holds", record=ordinal, offset=offset)


def _problems(
    shard: Shard, chunk: Sequence[Record | DamagedFrame], records: Sequence[Record], reading: Reading
) -> Iterator[Problem]:
    reasons = [(item, item.reason) for item in chunk if isinstance(item, DamagedFrame)]
    wrong = reading.layout.problems([record.payload for record in records], reading.schema)
    reasons += [(records[position], problem) for position, problem in wrong.items()]
    for item, reason in sorted(reasons, key=lambda pair: pair[0].ordinal):
        yield Problem(file=shard.path, problem=reason, record=item.ordinal, offset=item.offset)


def _hashed(records: Sequence[Record]) -> np.ndarray:
    hashed = np.zeros(len(records), RECORD)
    hashed["ordinal"] = [record.ordinal for record in records]
    hashed["offset"] = [record.offset for record in records]
    hashed["length"] = [len(record.payload) for record in records]
    hashed["content"] = index.content_hashes(record.payload for record in records)
    return hashed


def _hashed_rows(records: Sequence[Record], reading: Reading) -> np.ndarray:
    contents = [reading.layout.rows(record.payload, reading.schema) for record in records]
    counts = [len(rows) for rows in contents]
    hashed = np.zeros(sum(counts), ROW)
    hashed["record"] = np.repeat([record.ordinal for record in records], counts)
    hashed["row"] = [number for count in counts for number in range(count)]
    hashed["content"] = index.content_hashes(row for rows in contents for row in rows)
    if reading.id_features:
        hashed["id"] = index.content_hashes(
            reading.layout.row_id(row, reading.schema, reading.id_features)
            for rows in contents
            for row in rows
        )
    return hashed


def _chunks(items: Iterator[Record | DamagedFrame]) -> Iterator[list[Record | DamagedFrame]]:
    chunk: list[Record | DamagedFrame] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += len(item.payload) if isinstance(item, Record) else 0
        if len(chunk) >= _RECORDS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
