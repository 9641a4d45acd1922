"""Compares a whole dataset with its manifest: every file, every record."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from beam_jobs.checks.records import LAYOUTS, Layout
from beam_jobs.sources.byte_streams import in_batches
from pipeline.base import files
from pipeline.base.errors import DamagedError, InputError, shortage
from pipeline.base.progress import Bar
from pipeline.data.dataset import blocks, records
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset import shards as shards_lib
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import STATISTICS_FILE_NAME, File, Manifest, Shard
from pipeline.data.dataset.row_hashes import content_hashes
from pipeline.data.dataset.statistics import Statistics
from pipeline.data.dataset.tfrecord import DamagedFrame, Record, read_records
from pipeline.data.origins import reader
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import encoding
from pipeline.data.statistics.encoding import FILE_NAME

# --- Problems of one file.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """A difference from what was published. `record` (0-based) and `offset` are set where it is in one
    record.

    `origin` is the raw row, where a record holds one row and the dataset knows its origin.
    """

    file: str
    problem: str
    record: int | None = None
    offset: int | None = None
    origin: str | None = None


def file_problems(directory: pathlib.Path, published: File) -> Iterator[Problem]:
    """Yields what differs from the manifest: the file is missing, or has another size or digest."""
    path = directory / published.path
    if not path.is_file():
        yield Problem(file=published.path, problem="no such file")
        return
    size = path.stat().st_size
    if size != published.bytes:
        problem = f"{size:,} bytes in place of {published.bytes:,}, as published"
        yield Problem(file=published.path, problem=problem)
    digest = files.sha256(path)
    if digest != published.sha256:
        problem = f"SHA-256 {digest[:12]}… in place of {published.sha256[:12]}…"
        yield Problem(file=published.path, problem=problem)


def conversion_problems(directory: pathlib.Path) -> Iterator[Problem]:
    """Yields what is damaged in conversion.json, which the manifest does not list."""
    try:
        records.read_conversion(directory)
    except InputError as error:
        yield Problem(file=manifest_lib.CONVERSION_FILE_NAME, problem=error.received)


# --- Problems of one shard and its index.


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
    """Settings of reading shards: what records must conform to, and what is called with the bytes read."""

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
            stored = read_records(file, path.stat().st_size)
            for chunk in in_batches(
                stored, at_most=_RECORDS_AT_ONCE, size=_payload_bytes, most_bytes=_BYTES_AT_ONCE
            ):
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
    """Yields sound records whose place or hash in the index differs from the shard."""
    name = shards_lib.file_name(shard.path)
    try:
        stored = shards_lib.load(directory / name)
    except (InputError, OSError) as error:
        if shortage(error):
            raise
        yield Problem(file=name, problem=f"unreadable: {error}")
        return
    if len(stored) != published.records:
        problem = f"lists {len(stored):,} records in place of {published.records:,}"
        yield Problem(file=name, problem=problem)
    records = shard.records[shard.records["ordinal"] < len(stored)]
    ordinals = records["ordinal"]
    wrong = stored.offsets[ordinals] != records["offset"]
    wrong |= stored.lengths[ordinals] != records["length"]
    wrong |= stored.hashes[ordinals] != records["content"]
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
    hashed["content"] = content_hashes(record.payload for record in records)
    return hashed


def _hashed_rows(records: Sequence[Record], reading: Reading) -> np.ndarray:
    contents = [reading.layout.rows(record.payload, reading.schema) for record in records]
    counts = [len(rows) for rows in contents]
    hashed = np.zeros(sum(counts), ROW)
    hashed["record"] = np.repeat([record.ordinal for record in records], counts)
    hashed["row"] = [number for count in counts for number in range(count)]
    hashed["content"] = content_hashes(row for rows in contents for row in rows)
    if reading.id_features:
        hashed["id"] = content_hashes(
            reading.layout.row_id(row, reading.schema, reading.id_features)
            for rows in contents
            for row in rows
        )
    return hashed


def _payload_bytes(item: Record | DamagedFrame) -> int:
    return len(item.payload) if isinstance(item, Record) else 0


# --- Accumulators.


def accumulator_problems(
    directory: pathlib.Path, schema: Schema, statistics: Statistics
) -> Iterator[Problem]:
    """Checks that the accumulators can be read, and give the statistics of the dataset."""
    try:
        splits = encoding.loads(files.read_bytes(directory / FILE_NAME), schema)
        found = {name: encoding.statistics_of(content, schema) for name, content in splits.items()}
    except OSError:
        return  # `file_problems` reports a missing file
    except DamagedError as error:
        yield Problem(file=FILE_NAME, problem=str(error))
        return
    # Compared as bytes: only values that the file stores may count as a difference.
    if statistics and statistics_lib.dumps(found) != statistics_lib.dumps(statistics):
        yield Problem(file=FILE_NAME, problem=f"gives other statistics than {STATISTICS_FILE_NAME}")


# --- Origins.


class RowOrigins:
    """Origins by record; none where the dataset has none, or where they are damaged."""

    def __init__(self, directory: pathlib.Path, manifest: Manifest, schema: Schema) -> None:
        self._origins = None
        self._rows_in_record = blocks.geometry(schema).rows if manifest.layout == "blocks" else 1
        with contextlib.suppress(InputError):
            self._origins = reader.open_origins(directory, manifest)

    def of(self, shard: str, record: int, row: int = 0) -> str | None:
        """Returns file and number of the raw row; `row` counts the rows inside the record."""
        if self._origins is None:
            return None
        with contextlib.suppress(InputError, IndexError):  # a damaged shard may seem to have more rows
            origin = self._origins.of(shard, record * self._rows_in_record + row)
            return None if origin is None else str(origin)
        return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowAddress:
    """The place of a stored row, and its origin, if the dataset knows it."""

    shard: str
    record: int  # 0-based
    row: int  # in the record; 0 unless a record holds a block of rows
    origin: str | None = None

    def __str__(self) -> str:
        in_block = f" row {self.row:,}" if self.row else ""
        return f"{self.shard} record {self.record:,}{in_block}" + (f" ({self.origin})" if self.origin else "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadSplit:
    """The rows of the sound records of a split, shard after shard."""

    shards: tuple[ReadShard, ...]
    origins: RowOrigins

    @property
    def contents(self) -> np.ndarray:
        """Hash of each row, uint64 [rows]."""
        return self._column("content")

    @property
    def ids(self) -> np.ndarray:
        """Hash of each row's id, uint64 [rows]."""
        return self._column("id")

    def _column(self, name: str) -> np.ndarray:
        # A split without shards has no rows.
        return np.concatenate([np.empty(0, np.uint64), *(shard.rows[name] for shard in self.shards)])

    def address(self, position: int) -> RowAddress:
        """Returns the address of the row at index `position` of `contents` and `ids`."""
        for shard in self.shards:
            if position < len(shard.rows):
                record, row = int(shard.rows[position]["record"]), int(shard.rows[position]["row"])
                origin = self.origins.of(shard.path, record, row)
                return RowAddress(shard=shard.path, record=record, row=row, origin=origin)
            position -= len(shard.rows)
        raise IndexError(position)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verified:
    """A dataset as it was found."""

    directory: pathlib.Path
    manifest: Manifest
    schema: Schema
    splits: Mapping[str, ReadSplit]
    statistics: Statistics
    problems: tuple[Problem, ...]
    problem_count: int

    @property
    def rows(self) -> int:
        return sum(len(shard.rows) for split in self.splits.values() for shard in split.shards)

    @property
    def contents(self) -> dict[str, np.ndarray]:
        """Hash of each row of each split, uint64 [rows]."""
        return {name: split.contents for name, split in self.splits.items()}


def verify(directory: pathlib.Path) -> Verified:
    """Reads everything once; raises InputError only where manifest or schema cannot be used."""
    manifest = manifest_lib.load(directory)
    found = [problem for file in manifest.files for problem in file_problems(directory, file)]
    found += conversion_problems(directory)
    found += [Problem(file=name, problem=problem) for name, problem in reader.damage(directory, manifest)]
    schema = _schema(directory, manifest)
    if manifest.layout not in LAYOUTS:
        raise InputError(
            f"dataset {directory}",
            received=f"layout '{manifest.layout}'",
            expected=f"one of {', '.join(LAYOUTS)}",
            action="Verify it with the version that wrote it.",
        )
    size = sum(shard.bytes for shards in manifest.splits.values() for shard in shards)
    with Bar(total=size, unit="B", unit_scale=True, desc="verify") as bar:
        rows = RowOrigins(directory, manifest, schema)
        splits = _read_splits(directory, manifest, schema, origins=rows, on_bytes=bar.update)
    shards = [shard for split in splits.values() for shard in split.shards]
    listed = {file.path for file in manifest.files}
    published = [shard for split in manifest.splits.values() for shard in split]
    for shard, read in zip(published, shards, strict=True):
        if shards_lib.file_name(shard.path) in listed:
            found += index_problems(directory, shard, read)
    statistics = _statistics(directory, manifest, schema, found)
    found += accumulator_problems(directory, schema, statistics)
    in_shards = [problem for shard in shards for problem in shard.problems]
    return Verified(
        directory=directory,
        manifest=manifest,
        schema=schema,
        splits=splits,
        statistics=statistics,
        problems=(*found, *(_with_origin(problem, manifest, rows) for problem in in_shards)),
        problem_count=len(found) + sum(shard.problem_count for shard in shards),
    )


def _with_origin(problem: Problem, manifest: Manifest, origins: RowOrigins) -> Problem:
    if problem.record is None or manifest.layout != "rows":
        return problem
    return dataclasses.replace(problem, origin=origins.of(problem.file, problem.record))


def _schema(directory: pathlib.Path, manifest: Manifest) -> Schema:
    try:
        return schema_lib.load(directory / schema_lib.FILE_NAME)
    except InputError:
        manifest_lib.published_bytes(directory, manifest, schema_lib.FILE_NAME)  # names the file, if damaged
        raise


def id_features(schema: Schema) -> tuple[str, ...]:
    """The features that hold the row's id; none where records hold only a part of it, or several rows."""
    if schema.group:
        return ()
    by_column = {feature.source_column: feature.name for feature in schema.features}
    names = tuple(by_column.get(column, "") for column in schema.row_id)
    return names if all(names) else ()


def _read_splits(
    directory: pathlib.Path,
    manifest: Manifest,
    schema: Schema,
    *,
    origins: RowOrigins,
    on_bytes: Callable[[int], object],
) -> dict[str, ReadSplit]:
    reading = Reading(
        schema=schema, layout=LAYOUTS[manifest.layout], id_features=id_features(schema), on_bytes=on_bytes
    )
    return {
        split: ReadSplit(
            shards=tuple(read_shard(directory, shard, reading) for shard in shards), origins=origins
        )
        for split, shards in manifest.splits.items()
    }


def _statistics(
    directory: pathlib.Path, manifest: Manifest, schema: Schema, found: list[Problem]
) -> Statistics:
    name = manifest_lib.STATISTICS_FILE_NAME
    try:
        statistics = statistics_lib.read(directory / name)
    except InputError as error:
        found.append(Problem(file=name, problem=str(error)))
        return {}
    for split, measured in statistics.items():
        rows = manifest.rows(split) if split in manifest.splits else 0
        most = rows * (schema.group.length if schema.group else 1)  # statistics are of the rows in groups
        if not rows <= measured.examples <= most:
            expected = f"{rows:,}" if most == rows else f"{rows:,} to {most:,}"
            problem = f"describes {measured.examples:,} rows of split '{split}' in place of {expected}"
            found.append(Problem(file=name, problem=problem))
    return statistics
