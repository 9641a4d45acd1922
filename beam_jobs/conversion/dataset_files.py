"""Makes a dataset directory out of a finished run: nothing looks whole until the manifest is there."""

import collections
import hashlib
import pathlib
import re
from collections.abc import Mapping, Sequence

from beam_jobs.conversion import metadata
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.result import gathered_of, shards_of
from beam_jobs.launch.outcome import Outcome
from beam_jobs.publication import file_names
from beam_jobs.publication.destination import Destination
from beam_jobs.sources.pieces import rejections
from beam_jobs.sources.pieces.line_numbers import lines_before
from beam_jobs.validation.verdict import Verdict
from pipeline.data.dataset import conversion_record, index
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import File, Manifest, Shard
from pipeline.data.dataset.origins import files as origin_files
from pipeline.data.dataset.origins import reader as origins
from pipeline.data.dataset.origins.files import Entry, Folder
from pipeline.data.dataset.statistics import Statistics
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import accumulator_file

_VERSION = re.compile(r"\d+\.\d+\.\d+")


def publish(
    destination: Destination,
    *,
    outcome: Outcome,
    plan: Plan,
    schema: Schema,
    statistics: Statistics,
    verdict: Verdict,
    conversion: Mapping[str, object],
) -> Manifest:
    """Moves the shards to their names, describes them, and writes the manifest last."""
    directory = destination.directory
    splits = {split: _move_shards(destination, outcome, split) for split in plan.shards}
    version = directory.name if _VERSION.fullmatch(directory.name) else "1.0.0"
    _write_descriptions(directory, splits, plan=plan, schema=schema, version=version)
    _write_measures(directory, outcome, plan, schema, statistics)
    (directory / file_names.ANOMALIES).write_text(verdict.dumps(), encoding="utf-8")
    shards = {shard.path for split in splits.values() for shard in split}
    files = [path for path in _files(directory) if path not in shards]
    conversion_file = directory / manifest_lib.CONVERSION_FILE_NAME
    conversion_file.write_text(conversion_record.dumps(conversion), encoding="utf-8")
    manifest = Manifest(
        name=schema.name,
        version=version,
        layout=plan.layout,
        schema_fingerprint=schema.fingerprint,
        plan_fingerprint=plan.fingerprint,
        rows_read=outcome.rows_read,
        rows_rejected=outcome.rejected.rows,
        splits=splits,
        files=tuple(_described(directory, path) for path in files),
    )
    if plan.origins:
        _publish_origins(destination, outcome, plan)
    destination.commit(manifest_lib.FILE_NAME, manifest_lib.dumps(manifest))
    return manifest


def _publish_origins(destination: Destination, outcome: Outcome, plan: Plan) -> None:
    """The manifest does not list them: the dataset's digest does not depend on the names of raw files."""
    (destination.directory / origins.FOLDER).mkdir()
    for shard in outcome.files:
        destination.move(shard.origins_path, origins.file_name(shard.file_name))
    folder = Folder(_absolute(plan), plan.pieces[0].line_ends)
    content = origin_files.dumps(_entries(plan, outcome.lines), folder=folder, files_id=plan.origins)
    (destination.directory / origins.FILES_NAME).write_bytes(content)


def _absolute(plan: Plan) -> str:
    """The directory of all inputs: a relative one would be of no use elsewhere."""
    is_local = plan.pieces[0].stamps and "://" not in plan.root
    return str(pathlib.Path(plan.root).absolute() / "_")[:-1] if is_local else plan.root


def _entries(plan: Plan, lines: Mapping[str, int]) -> list[Entry]:
    sizes = collections.Counter[str]()
    for piece in plan.pieces:
        sizes[piece.paths[0]] += piece.bytes
    entries: list[Entry] = []
    for piece, before in zip(plan.pieces, lines_before(plan.pieces, lines), strict=True):
        if piece.line_ends and len(piece.paths) == 1:
            entries.append(Entry(piece.file_names[0], before, piece.start, sizes[piece.paths[0]]))
        else:
            entries += (Entry(name, before) for name in piece.file_names)
    return entries


def _move_shards(destination: Destination, outcome: Outcome, split: str) -> tuple[Shard, ...]:
    shards = []
    for shard in shards_of(outcome, split):
        destination.move(shard.path, shard.file_name)
        destination.move(shard.index_path, index.file_name(shard.file_name))
        shards.append(
            Shard(
                path=shard.file_name,
                bytes=shard.bytes,
                sha256=shard.sha256,
                records=shard.records,
                rows=shard.rows,
            )
        )
    return tuple(shards)


def _write_descriptions(
    directory: pathlib.Path,
    splits: Mapping[str, Sequence[Shard]],
    *,
    plan: Plan,
    schema: Schema,
    version: str,
) -> None:
    metadata.write_tfds_metadata(schema, splits, layout=plan.layout, version=version, directory=directory)
    # Not by `schema_lib.save`: killed at the wrong moment, that leaves a file of a name that is not ours.
    (directory / schema_lib.FILE_NAME).write_text(schema_lib.dumps(schema), encoding="utf-8")
    (directory / file_names.SCHEMA_PROTO).write_text(metadata.schema_proto(schema), encoding="utf-8")


def _write_measures(
    directory: pathlib.Path, outcome: Outcome, plan: Plan, schema: Schema, statistics: Statistics
) -> None:
    (directory / manifest_lib.STATISTICS_FILE_NAME).write_bytes(statistics_lib.dumps(statistics))
    gathered = accumulator_file.dumps(gathered_of(outcome, plan), schema)
    (directory / accumulator_file.FILE_NAME).write_bytes(gathered)
    rejections.save(outcome.rejected, directory / manifest_lib.REJECTED_FILE_NAME)


def _files(directory: pathlib.Path) -> list[str]:
    """Relative paths of the files in `directory`, but for what is temporary."""
    found = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != file_names.TEMPORARY)


def _described(directory: pathlib.Path, path: str) -> File:
    content = (directory / path).read_bytes()
    return File(path=path, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
