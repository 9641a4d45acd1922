"""The manifest: the commit point of a dataset directory, and the only file that its readers trust.

It is written last, so a directory that has one is complete. It names every file with its size and digest, so
a change after publication is noticed. It holds nothing that varies between two runs over the same input: no
times, hosts or absolute paths.
"""

import collections
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import stat
from collections.abc import Iterable, Mapping, Sequence

from pipeline.base import directories, process_memory
from pipeline.base import files as files_lib
from pipeline.base.errors import InputError, did_you_mean
from pipeline.base.files import FileState
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema

FORMAT = "penstock.manifest/1"
LAYOUTS = ("rows", "blocks")
FILE_NAME = "manifest.json"
STATISTICS_FILE_NAME = "statistics.pb"
REJECTED_FILE_NAME = "rejected/rejected.jsonl"
CONVERSION_FILE_NAME = "conversion.json"
_MOST_ROWS = 1 << 63  # rows are numbered in int64


@dataclasses.dataclass(frozen=True, kw_only=True)
class File:
    path: str  # relative to the dataset directory
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard(File):
    """One TFRecord file."""

    records: int
    rows: int  # as many as records, unless each record holds a block of rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    format: str = FORMAT
    name: str
    version: str
    layout: str  # "rows": a tf.train.Example holds a row; "blocks": it holds a block of rows
    schema_fingerprint: str
    plan_fingerprint: str
    rows_read: int
    rows_rejected: int
    splits: Mapping[str, tuple[Shard, ...]]
    files: tuple[File, ...]

    def records(self, split: str) -> int:
        return sum(shard.records for shard in self.splits[split])

    def rows(self, split: str) -> int:
        return sum(shard.rows for shard in self.splits[split])

    @property
    def rows_written(self) -> int:
        return sum(self.rows(split) for split in self.splits)

    @functools.cached_property
    def digests_of_files(self) -> Mapping[str, str]:
        """SHA-256 of each file other than a shard."""
        return {file.path: file.sha256 for file in self.files}

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the manifest's content: equal exactly when every byte of the dataset is."""
        return hashlib.sha256(_canonical(_body(self))).hexdigest()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """A published dataset version: its directory, manifest and schema; or several of them, read as one.

    All `members` lie in `directory`, and files are named from there.
    """

    directory: pathlib.Path
    manifest: Manifest
    schema: Schema
    members: tuple["Dataset", ...] = ()  # in the order in which they are read
    state: FileState | None = None  # state of the manifest before it was read; None where no file was read

    def __str__(self) -> str:
        return f"{self.directory} ({len(self.members)} datasets)" if self.members else str(self.directory)

    def path_of(self, name: str) -> str:
        """Absolute path of a file of the dataset; one whose name is an absolute path may lie elsewhere."""
        return _path_in(self._prefix, name)

    @functools.cached_property
    def _prefix(self) -> str:
        return _prefix(self.directory)

    @property
    def published(self) -> tuple["Dataset", ...]:
        """The dataset itself, or its members: what was published, directory by directory."""
        return self.members or (self,)

    def span(self, member: "Dataset") -> str:
        """The directory of one of `members`, relative to `directory`; empty for the dataset itself."""
        return str(member.directory.relative_to(self.directory)) if self.members else ""

    def owner(self, name: str) -> tuple["Dataset", str]:
        """The dataset that published the shard `name`, and what its own manifest calls that shard."""
        return self._owners[name] if self.members else (self, name)

    @functools.cached_property
    def _owners(self) -> Mapping[str, tuple["Dataset", str]]:
        return {
            inner_name(self.directory, member.directory, shard.path): (member, shard.path)
            for member in self.members
            for shards in member.manifest.splits.values()
            for shard in shards
        }

    def shard_paths(self, split: str) -> list[str]:
        """Absolute paths of the shards of `split` that hold records, in order."""
        return [self.path_of(shard.path) for shard in self.shards(split) if shard.records]

    def records(self, split: str) -> int:
        return sum(shard.records for shard in self.shards(split))

    def rows(self, split: str) -> int:
        return sum(shard.rows for shard in self.shards(split))

    def shards(self, split: str) -> tuple[Shard, ...]:
        """The shards of `split`; raises InputError if there is no such split."""
        if split not in self.manifest.splits:
            raise InputError(
                f"dataset {self}",
                received=f"a request for split '{split}'",
                expected=f"one of {', '.join(self.manifest.splits)}",
                action=did_you_mean(
                    split,
                    self.manifest.splits,
                    otherwise="Name one of these splits, or convert the data again with --splits.",
                ),
            )
        return self.manifest.splits[split]


def _prefix(directory: pathlib.Path) -> str:
    root = os.fspath(directory)
    return root if root.endswith("/") else f"{root}/"


def _path_in(prefix: str, name: str) -> str:
    # `os.path.join` takes five times as long, and pathlib more: 1 s for opening 100,000 shards.
    return name if name.startswith("/") else prefix + name


def open_dataset(directory: str | os.PathLike) -> Dataset:
    """Opens a published dataset, after checking that every file is there with its published size.

    Raises:
      InputError: there is no manifest, a file is missing or has another size, or the schema file is not the
        one with which the data was written.
    """
    directory = files_lib.absolute(directory)
    state = _state(directory / FILE_NAME)
    manifest = load(directory)
    check_files(directory, manifest)
    content = published_bytes(directory, manifest, schema_lib.FILE_NAME)
    dataset_schema = schema_lib.loads(content, directory / schema_lib.FILE_NAME)
    if dataset_schema.fingerprint != manifest.schema_fingerprint:
        raise InputError(
            f"dataset {directory}, file {schema_lib.FILE_NAME}",
            received=f"fingerprint {dataset_schema.fingerprint[:12]}",
            expected=f"{manifest.schema_fingerprint[:12]}, the schema that the records were written with",
            action="Restore the file; to change the schema, convert the raw data to a new version.",
        )
    return Dataset(directory=directory, manifest=manifest, schema=dataset_schema, state=state)


def _state(path: pathlib.Path) -> FileState | None:
    try:
        return files_lib.file_state(path)
    except OSError:  # `load` reports it
        return None


def check_files(directory: pathlib.Path, manifest: Manifest) -> None:
    """Raises InputError where a file is missing, or has another size than was published.

    Raises TryAgainError where a file's size cannot be read, even after retries.
    """
    prefix = _prefix(directory)

    def check(files: Sequence[File]) -> None:
        for file in files:
            _check_size(_path_in(prefix, file.path), file)

    for _ in files_lib.in_turns(functools.partial(files_lib.one_by_one, check), list(_all_files(manifest))):
        pass


def published_bytes(directory: pathlib.Path, manifest: Manifest, name: str) -> bytes:
    """The content of a file that the manifest lists.

    Raises:
      InputError: its content differs, or there is no such file.
      TryAgainError: it cannot be read, even after retries.
    """
    [(content, _)] = files_lib.retry_naming_file(lambda: published_in_turn(directory, manifest, [name]))
    return content


def published_in_turn(
    directory: pathlib.Path, manifest: Manifest, names: Sequence[str]
) -> list[tuple[bytes, FileState]]:
    """`published_bytes` of several files, with their states; raises OSError where a later try may succeed."""
    prefix, digests, found = _prefix(directory), manifest.digests_of_files, []
    paths = [_path_in(prefix, name) for name in names]
    files = files_lib.opened_ahead(paths)
    for path, name in zip(paths, names, strict=True):
        try:
            content, status = files_lib.read_open(next(files), path)
        except OSError as error:
            if not files_lib.is_final_failure(error):  # the next try may read it
                raise
            failed = paths.index(error.filename)  # one of the files that were opened ahead
            raise _not_published(paths[failed], error.strerror, digests.get(names[failed])) from None
        digest = hashlib.sha256(content).hexdigest()
        if digest != digests.get(name):
            raise _not_published(path, f"SHA-256 {digest[:12]}…", digests.get(name))
        found.append((content, files_lib.state_of_status(status)))
    return found


def check_digest(directory: pathlib.Path, manifest: Manifest, name: str) -> None:
    """Raises InputError where a file that is not a shard differs from what the manifest lists; it may be of
    any size.
    """
    listed = manifest.digests_of_files.get(name)
    try:
        found = files_lib.sha256(directory / name)
    except OSError as error:
        raise _not_published(directory / name, error.strerror, listed) from None
    if found != listed:
        raise _not_published(directory / name, f"SHA-256 {found[:12]}…", listed)


@process_memory.uncollected()
def load(directory: pathlib.Path) -> Manifest:
    """Reads `directory`'s manifest; raises InputError where there is none or it was altered."""
    path = directory / FILE_NAME
    try:
        document = json.loads(files_lib.read_bytes(path))
        _check_format(path, document["format"])
        digest = document.pop("digest")
        manifest = _from_body(document)
    except FileNotFoundError:
        what = "a directory without a manifest" if directory.is_dir() else "no such directory"
        raise _no_dataset(directory, what) from None
    except NotADirectoryError:
        raise _no_dataset(directory, "a file") from None
    except IsADirectoryError:
        raise _altered(path, "a directory") from None
    except OSError as error:
        raise _altered(path, error.strerror) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _altered(path, f"unreadable content ({error!r})") from None
    if manifest.digest != digest:
        raise _altered(path, f"digest {manifest.digest[:12]} where the file says {str(digest)[:12]}")
    directories.check_inside(path, directory, (file.path for file in _all_files(manifest)))
    return manifest


def _no_dataset(directory: pathlib.Path, received: str) -> InputError:
    return InputError(
        f"dataset {directory}",
        received=received,
        expected=f"a published dataset, which holds {FILE_NAME}",
        # As a path, `gs://bucket` is `gs:/bucket`.
        action="Copy it from its store to a local directory, and name that."
        if ":/" in str(directory)
        else "Write one with `python -m beam_jobs.convert`; a run that was cut short publishes none.",
    )


def inner_name(directory: pathlib.Path, member: pathlib.Path, name: str) -> str:
    """The name, relative to `directory`, of a file of the dataset in its subdirectory `member`."""
    return (member.relative_to(directory) / name).as_posix()


def dumps(manifest: Manifest) -> str:
    return json.dumps({**_body(manifest), "digest": manifest.digest}, indent=2) + "\n"


def _body(manifest: Manifest) -> dict:
    """The fields as JSON; `dataclasses.asdict` takes seconds for 100,000 shards."""
    fields = {field.name: getattr(manifest, field.name) for field in dataclasses.fields(manifest)}
    splits = {split: [vars(shard) for shard in shards] for split, shards in manifest.splits.items()}
    return fields | {"splits": splits, "files": [vars(file) for file in manifest.files]}


def _from_body(body: dict) -> Manifest:
    splits = {
        split: tuple(Shard(**shard) for shard in shards) for split, shards in body.pop("splits").items()
    }
    manifest = Manifest(splits=splits, files=tuple(File(**file) for file in body.pop("files")), **body)
    if manifest.layout not in LAYOUTS:
        raise ValueError(f"layout {manifest.layout!r:.60}")
    for part in (manifest, *_all_files(manifest)):
        _check_types(part)
    names = collections.Counter(file.path for file in _all_files(manifest))
    if names.total() > len(names):
        raise ValueError(f"the file {names.most_common(1)[0][0]!r:.200} is listed twice")
    if manifest.rows_written >= _MOST_ROWS:
        raise ValueError(f"{manifest.rows_written:,} rows")
    return manifest


def _check_types(part: Manifest | File) -> None:
    """Raises TypeError where a field is not text, or not a whole number of at least 0."""
    for name, kind in _checked_fields(type(part)):
        value = getattr(part, name)
        if not (isinstance(value, str) if kind is str else type(value) is int and value >= 0):
            raise TypeError(f"{name} is {value!r:.60}")


@functools.cache
def _checked_fields(part: type) -> Sequence[tuple[str, type]]:
    return [(field.name, field.type) for field in dataclasses.fields(part) if field.type in (str, int)]


def _check_format(path: pathlib.Path, received: str) -> None:
    if received != FORMAT:
        raise InputError(
            f"manifest {path}",
            received=f"format '{received}'",
            expected=f"'{FORMAT}'",
            action="Convert the raw data again, or read it with the version of Penstock that wrote it.",
        )


def _canonical(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _all_files(manifest: Manifest) -> Iterable[File]:
    yield from manifest.files
    for shards in manifest.splits.values():
        yield from shards


def _check_size(path: str, file: File) -> None:
    try:
        status = os.stat(path)  # noqa: PTH116
        size = status.st_size if stat.S_ISREG(status.st_mode) else "not an ordinary file"
    except OSError as error:
        if not files_lib.is_final_failure(error):
            raise
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        size = "no such file" if is_missing else error.strerror
    if size != file.bytes:
        received = f"{size:,} bytes" if isinstance(size, int) else size
        raise damaged_file(f"dataset file {path}", received, f"{file.bytes:,} bytes, as published")


def damaged_file(thing: str, received: str, expected: str) -> InputError:
    """Returns the error for a stored file that is not as it was written."""
    action = "Restore the file from a copy, or convert the raw data again."
    return InputError(thing, received=received, expected=expected, action=action)


def _not_published(path: str | pathlib.Path, received: str, digest: str | None) -> InputError:
    expected = f"SHA-256 {digest[:12]}…, as published" if digest else "a file that the manifest lists"
    return damaged_file(f"dataset file {path}", received, expected)


def _altered(path: pathlib.Path, received: str) -> InputError:
    return damaged_file(f"manifest {path}", received, "the manifest as it was published")


# --- The usual splits, and the order in which splits are listed.

TRAIN, VALIDATION, TEST = _USUAL = ("train", "validation", "test")


def in_order(splits: Iterable[str]) -> list[str]:
    """The usual splits in the order of their use, then any others by name."""
    return sorted(splits, key=lambda split: (_USUAL.index(split) if split in _USUAL else len(_USUAL), split))
