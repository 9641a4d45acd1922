"""Makes a dataset directory out of a finished run: nothing looks whole until the manifest is there."""

import hashlib
import json
import os
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

from beam_jobs import metadata
from beam_jobs import rejected as rejected_lib
from beam_jobs.claim import TEMPORARY
from beam_jobs.outcome import Outcome
from beam_jobs.plan import Plan
from beam_jobs.validation import anomalies
from beam_jobs.validation.judge import Verdict
from pipeline.data import index
from pipeline.data import manifest as manifest_lib
from pipeline.data import schema as schema_lib
from pipeline.data import statistics as statistics_lib
from pipeline.data.manifest import File, Manifest, Shard
from pipeline.data.schema import Schema

CONVERSION_FILE_NAME = "conversion.json"
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def publish(
    output: pathlib.Path,
    temporary: pathlib.Path,
    *,
    outcome: Outcome,
    plan: Plan,
    schema: Schema,
    verdict: Verdict,
    conversion: Mapping[str, object],
    move: Callable[[str, str], object] | None = None,
) -> Manifest:
    """Moves the shards into place, describes them, and writes the manifest last.

    `move` takes a file that a worker wrote and the name that it gets, if that place is not in `output`.
    """
    move = move or (lambda path, name: pathlib.Path(path).replace(output / name))
    splits = {split: _move_shards(move, outcome, split) for split in plan.shards}
    version = output.name if _VERSION.fullmatch(output.name) else "1.0.0"
    _write_descriptions(output, splits, outcome=outcome, plan=plan, schema=schema, version=version)
    (output / anomalies.FILE_NAME).write_text(verdict.dumps())
    shards = {shard.path for split in splits.values() for shard in split}
    files = [path for path in _files(output) if path not in shards]
    (output / CONVERSION_FILE_NAME).write_text(json.dumps(conversion, indent=2) + "\n")
    manifest = Manifest(
        name=schema.name,
        version=version,
        layout=plan.layout,
        schema_fingerprint=schema.fingerprint,
        plan_fingerprint=plan.fingerprint,
        rows_read=outcome.rows_read,
        rows_rejected=outcome.rejected.rows,
        splits=splits,
        files=tuple(_described(output, path) for path in files),
    )
    _write_last(output, temporary, manifest)
    return manifest


def _move_shards(move: Callable[[str, str], object], outcome: Outcome, split: str) -> tuple[Shard, ...]:
    shards = []
    for shard in outcome.shards_of(split):
        move(shard.path, shard.file_name)
        move(shard.index_path, index.file_name(shard.file_name))
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
    output: pathlib.Path,
    splits: Mapping[str, Sequence[Shard]],
    *,
    outcome: Outcome,
    plan: Plan,
    schema: Schema,
    version: str,
) -> None:
    metadata.write_tfds_metadata(schema, splits, layout=plan.layout, version=version, directory=output)
    schema_lib.save(schema, output / schema_lib.FILE_NAME)
    (output / metadata.SCHEMA_PROTO_FILE_NAME).write_text(metadata.schema_proto(schema))
    statistics = {split: outcome.statistics[split] for split in splits if split in outcome.statistics}
    (output / manifest_lib.STATISTICS_FILE_NAME).write_bytes(statistics_lib.dumps(statistics))
    rejected = output / manifest_lib.REJECTED_FILE_NAME
    rejected.parent.mkdir()
    rejected.write_text(rejected_lib.dumps(outcome.rejected))


def _write_last(output: pathlib.Path, temporary: pathlib.Path, manifest: Manifest) -> None:
    # Everything must be on the disk before the name that vouches for it is.
    for path in _files(output):
        _sync(output / path)
    draft = temporary / manifest_lib.FILE_NAME
    draft.write_text(manifest_lib.dumps(manifest))
    _sync(draft)
    draft.replace(output / manifest_lib.FILE_NAME)
    _sync(output)


def _files(output: pathlib.Path) -> list[str]:
    """Relative paths of the files in `output`, but for what is temporary."""
    found = (path.relative_to(output) for path in output.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != TEMPORARY)


def _described(output: pathlib.Path, path: str) -> File:
    content = (output / path).read_bytes()
    return File(path=path, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
