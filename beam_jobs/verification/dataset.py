"""Compares a whole dataset with its manifest: every file, every record."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping

import numpy as np
import tqdm

from beam_jobs.verification import origins
from beam_jobs.verification.accumulators import accumulator_problems
from beam_jobs.verification.files import Problem, conversion_problems, file_problems
from beam_jobs.verification.origins import RowOrigins
from beam_jobs.verification.record_rows import LAYOUTS
from beam_jobs.verification.shards import Reading, ReadShard, index_problems, read_shard
from pipeline.data.dataset import index as index_lib
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import Manifest
from pipeline.data.dataset.statistics import Statistics
from pipeline.data.errors import InputError
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowAddress:
    """Where a row is stored, and where it came from, if the dataset knows."""

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
        """Of the row at index `position` of `contents` and `ids`."""
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


def verify(directory: pathlib.Path) -> Verified:
    """Reads everything once; raises InputError only where manifest or schema cannot be used."""
    manifest = manifest_lib.load(directory)
    found = [problem for file in manifest.files for problem in file_problems(directory, file)]
    found += conversion_problems(directory)
    found += origins.problems(directory, manifest)
    schema = _schema(directory, manifest)
    if manifest.layout not in LAYOUTS:
        raise InputError(
            f"dataset {directory}",
            received=f"layout '{manifest.layout}'",
            expected=f"one of {', '.join(LAYOUTS)}",
            action="Verify it with the version that wrote it.",
        )
    size = sum(shard.bytes for shards in manifest.splits.values() for shard in shards)
    with tqdm.tqdm(total=size, unit="B", unit_scale=True, desc="verify", disable=None, leave=False) as bar:
        rows = RowOrigins(directory, manifest, schema)
        splits = _read_splits(directory, manifest, schema, origins=rows, on_bytes=bar.update)
    shards = [shard for split in splits.values() for shard in split.shards]
    listed = {file.path for file in manifest.files}
    published = [shard for split in manifest.splits.values() for shard in split]
    for shard, read in zip(published, shards, strict=True):
        if index_lib.file_name(shard.path) in listed:
            found += index_problems(directory, shard, read)
    statistics = _statistics(directory, manifest, found)
    found += accumulator_problems(directory, manifest, schema, statistics)
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
    """The features that hold the row's id; none where records hold only a part of it."""
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


def _statistics(directory: pathlib.Path, manifest: Manifest, found: list[Problem]) -> Statistics:
    name = manifest_lib.STATISTICS_FILE_NAME
    try:
        statistics = statistics_lib.read(directory / name)
    except InputError as error:
        found.append(Problem(file=name, problem=str(error)))
        return {}
    for split, measured in statistics.items():
        rows = manifest.rows(split) if split in manifest.splits else 0
        if measured.examples != rows:
            problem = f"describes {measured.examples:,} rows of split '{split}' in place of {rows:,}"
            found.append(Problem(file=name, problem=problem))
    return statistics
