"""Makes a dataset directory out of a finished run: nothing looks whole until the manifest is there.

A run owns `<output>/_tmp/` from its first act to its last but one, and holds a lock on the output
directory, which the kernel releases when the process dies. So a directory with `_tmp` and no manifest is
what a killed run left, and the next run clears it away; anything else in there is somebody's, and refused.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

from beam_jobs import metadata
from beam_jobs import rejected as rejected_lib
from beam_jobs.outcome import Outcome
from beam_jobs.plan import Plan
from beam_jobs.validation import anomalies
from beam_jobs.validation.judge import Verdict
from pipeline.data import index
from pipeline.data import manifest as manifest_lib
from pipeline.data import schema as schema_lib
from pipeline.data import statistics as statistics_lib
from pipeline.data.errors import InputError
from pipeline.data.manifest import File, Manifest, Shard
from pipeline.data.schema import Schema

CONVERSION_FILE_NAME = "conversion.json"
TEMPORARY = "_tmp"
_VERSION = re.compile(r"\d+\.\d+\.\d+")
# Every name that a run gives to something in the output directory.
_OURS = re.compile(
    r"_tmp|rejected|[a-z0-9_]+-[a-z0-9_]+(\.tfrecord-\d{5}-of-\d{5}|-\d{5}-of-\d{5}\.index)|.+\.labels\.txt|dataset_info\.json"
    r"|features\.json|schema\.json|schema\.pbtxt|statistics\.pb|conversion\.json|anomalies\.json"
    r"|predictions-\d{5}-of-\d{5}\.(parquet|tfrecord)"
)


@contextlib.contextmanager
def claimed(output: pathlib.Path) -> Iterator[pathlib.Path]:
    """Claims `output` and gives a temporary directory in it; if the block fails, leaves no trace.

    Raises InputError if a dataset, foreign files or another run are there.
    """
    made = _make_directories(output)
    try:
        with _locked(output):
            _check_unpublished(output)
            _clear(output)
            temporary = output / TEMPORARY / uuid.uuid4().hex
            temporary.mkdir(parents=True)
            try:
                yield temporary
            except BaseException:
                _clear(output)
                raise
            shutil.rmtree(output / TEMPORARY)
    except BaseException:
        for directory in made:
            with contextlib.suppress(OSError):
                directory.rmdir()
        raise


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


def _make_directories(output: pathlib.Path) -> list[pathlib.Path]:
    """Creates `output` and its parents; gives those that were not there, innermost first."""
    made = [path for path in (output, *output.parents) if not path.exists()]
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--output={output}",
            received=error.strerror,
            expected="a directory that can be created",
            action="Choose another directory.",
        ) from None
    return made


@contextlib.contextmanager
def _locked(output: pathlib.Path) -> Iterator[None]:
    descriptor = os.open(output, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A run that failed meanwhile may have removed the directory that we opened.
        if not output.exists() or output.stat().st_ino != os.fstat(descriptor).st_ino:
            raise BlockingIOError
        yield
    except BlockingIOError:
        raise InputError(
            f"--output={output}",
            received="a directory that another run is writing to",
            expected="a directory of its own for each run",
            action="Wait for that run to end, or choose another directory.",
        ) from None
    finally:
        os.close(descriptor)


def already_published(output: pathlib.Path | str) -> InputError:
    return InputError(
        f"--output={output}",
        received="a published dataset",
        expected="a directory that does not exist, or is empty",
        action="Datasets are never overwritten: choose a new version directory, or remove this one.",
    )


def check_ours(output: pathlib.Path | str, names: Sequence[str]) -> None:
    """Raises InputError if any of `names` in `output` may be somebody else's."""
    foreign = [name for name in names if not _OURS.fullmatch(name)] if TEMPORARY in names else names
    if foreign:
        raise InputError(
            f"--output={output}",
            received=f"a directory that holds {', '.join(foreign[:5])}",
            expected="a directory that does not exist, or is empty",
            action="Choose another directory, or move these files away.",
        )


def _check_unpublished(output: pathlib.Path) -> None:
    if not (output / manifest_lib.FILE_NAME).exists():
        return
    # Killed between its last two acts, a run leaves this beside a whole dataset.
    shutil.rmtree(output / TEMPORARY, ignore_errors=True)
    raise already_published(output)


def _clear(output: pathlib.Path) -> None:
    """Removes what a run left; raises InputError if any of it may be somebody else's."""
    found = sorted(path.name for path in output.iterdir())
    check_ours(output, found)
    # The mark that these leftovers are ours goes last.
    for name in sorted(found, key=lambda name: name == TEMPORARY):
        path = output / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
